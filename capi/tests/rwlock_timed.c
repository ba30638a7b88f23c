/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Timed locks end at their moment with ETIMEDOUT; EINVAL for a malformed moment; a free lock is
 * taken at once.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int reader_in, reader_go, writer_in, writer_go;

static void *reads(void *arg)
{
	CHECK_EQ(pthread_rwlock_rdlock(&lock), 0);
	set_value(&reader_in, 1);
	await_value(&reader_go, 1);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	return arg;
}

static void *writes(void *arg)
{
	CHECK_EQ(pthread_rwlock_wrlock(&lock), 0);
	set_value(&writer_in, 1);
	await_value(&writer_go, 1);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	return arg;
}

static void times_out(int (*call)(pthread_rwlock_t *, const struct timespec *))
{
	struct timespec at = moment(CLOCK_REALTIME, 20);
	long start = now_ms();
	CHECK_EQ(call(&lock, &at), ETIMEDOUT);
	CHECK(now_ms() - start >= 18);
	at.tv_nsec = 1000000000;
	CHECK_EQ(call(&lock, &at), EINVAL);
}

int main(void)
{
	struct timespec past = moment(CLOCK_REALTIME, -1000);
	CHECK_EQ(pthread_rwlock_timedwrlock(&lock, &past), 0);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(pthread_rwlock_timedrdlock(&lock, &past), 0);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);

	pthread_t thread = start_thread(reads, NULL);
	await_value(&reader_in, 1);
	times_out(pthread_rwlock_timedwrlock);
	/* The writer that gave up does not keep readers out. */
	CHECK_EQ(pthread_rwlock_timedrdlock(&lock, &past), 0);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	set_value(&reader_go, 1);
	join_thread(thread);

	thread = start_thread(writes, NULL);
	await_value(&writer_in, 1);
	times_out(pthread_rwlock_timedwrlock);
	times_out(pthread_rwlock_timedrdlock);
	set_value(&writer_go, 1);
	struct timespec at = moment(CLOCK_REALTIME, 40000);
	CHECK_EQ(pthread_rwlock_timedwrlock(&lock, &at), 0);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	join_thread(thread);
	return 0;
}
