/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * clockwait waits by the clock of the call, whatever the attribute says.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	for (int i = 0; i < 2; i++) {
		struct timespec at = moment(clocks[i], 20);
		long start = now_ms();
		int error;
		while ((error = pthread_cond_clockwait(&cond, &mutex, clocks[i], &at)) == 0)
			continue;
		CHECK_EQ(error, ETIMEDOUT);
		long took = now_ms() - start;
		CHECK(took >= 18 && took < 40000);
	}
	struct timespec at = moment(CLOCK_REALTIME, 20);
	CHECK_EQ(pthread_cond_clockwait(&cond, &mutex, CLOCK_PROCESS_CPUTIME_ID, &at), EINVAL);
	at.tv_nsec = 1000000000;
	CHECK_EQ(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &at), EINVAL);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return 0;
}
