/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The C library refuses a deadline that is none, and a clock that nobody waits by, where the
 * read-write lock is free as well.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void *try_all(void *unused)
{
	const struct timespec past = { 1, 0 }, bad = { 1, 1000000000 }, worse = { 1, -1 };

	CHECK_EQ(pthread_rwlock_timedrdlock(&lock, &bad), EINVAL);
	CHECK_EQ(pthread_rwlock_timedwrlock(&lock, &worse), EINVAL);
	CHECK_EQ(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &worse), EINVAL);
	CHECK_EQ(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &bad), EINVAL);
	CHECK_EQ(pthread_rwlock_clockrdlock(&lock, CLOCK_THREAD_CPUTIME_ID, &past), EINVAL);
	CHECK_EQ(pthread_rwlock_clockwrlock(&lock, 99, &past), EINVAL);
	/* None of them has it; one that is past is no reason to wait for nobody. */
	CHECK_EQ(pthread_rwlock_timedwrlock(&lock, &past), 0);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &past), 0);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	return unused;
}

int main(void)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, try_all, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	try_all(NULL);
	return 0;
}
