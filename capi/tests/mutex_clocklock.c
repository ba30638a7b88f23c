/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * clocklock waits by either clock and refuses the others.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int main(void)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	for (int i = 0; i < 2; i++) {
		struct timespec at = moment(clocks[i], 20);
		long start = now_ms();
		CHECK_EQ(pthread_mutex_clocklock(&mutex, clocks[i], &at), 0);
		CHECK_EQ(pthread_mutex_clocklock(&mutex, clocks[i], &at), ETIMEDOUT);
		CHECK(now_ms() - start >= 18);
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	}
	struct timespec at = moment(CLOCK_REALTIME, 20);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &at), EINVAL);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return 0;
}
