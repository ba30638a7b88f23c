/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The clock attribute decides by which clock timed waits go; clocks of processes are EINVAL.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_condattr_t attr;
	pthread_cond_t cond;
	clockid_t clock = -1;
	CHECK_EQ(pthread_condattr_init(&attr), 0);
	CHECK_EQ(pthread_condattr_getclock(&attr, &clock), 0);
	CHECK_EQ(clock, CLOCK_REALTIME);
	CHECK_EQ(pthread_condattr_setclock(&attr, CLOCK_PROCESS_CPUTIME_ID), EINVAL);
	CHECK_EQ(pthread_condattr_setclock(&attr, 12345), EINVAL);
	CHECK_EQ(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC), 0);
	CHECK_EQ(pthread_condattr_getclock(&attr, &clock), 0);
	CHECK_EQ(clock, CLOCK_MONOTONIC);
	CHECK_EQ(pthread_cond_init(&cond, &attr), 0);
	CHECK_EQ(pthread_condattr_destroy(&attr), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	struct timespec at = moment(CLOCK_MONOTONIC, 20);
	long start = now_ms();
	int error;
	while ((error = pthread_cond_timedwait(&cond, &mutex, &at)) == 0)
		continue;
	CHECK_EQ(error, ETIMEDOUT);
	long took = now_ms() - start;
	CHECK(took >= 18 && took < 40000);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(pthread_cond_destroy(&cond), 0);
	return 0;
}
