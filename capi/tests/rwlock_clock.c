/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The clock variants wait by either clock and refuse the others.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int inside, let_go;

static void *writes(void *arg)
{
	CHECK_EQ(pthread_rwlock_wrlock(&lock), 0);
	set_value(&inside, 1);
	await_value(&let_go, 1);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	return arg;
}

int main(void)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	pthread_t thread = start_thread(writes, NULL);
	await_value(&inside, 1);
	for (int i = 0; i < 2; i++) {
		struct timespec at = moment(clocks[i], 20);
		long start = now_ms();
		CHECK_EQ(pthread_rwlock_clockrdlock(&lock, clocks[i], &at), ETIMEDOUT);
		CHECK(now_ms() - start >= 18);
		at = moment(clocks[i], 20);
		CHECK_EQ(pthread_rwlock_clockwrlock(&lock, clocks[i], &at), ETIMEDOUT);
		CHECK(now_ms() - start >= 36);
	}
	struct timespec at = moment(CLOCK_REALTIME, 20);
	CHECK_EQ(pthread_rwlock_clockrdlock(&lock, CLOCK_PROCESS_CPUTIME_ID, &at), EINVAL);
	CHECK_EQ(pthread_rwlock_clockwrlock(&lock, CLOCK_PROCESS_CPUTIME_ID, &at), EINVAL);
	set_value(&let_go, 1);
	join_thread(thread);
	return 0;
}
