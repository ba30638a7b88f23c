/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Relocking a normal mutex deadlocks, as POSIX has it; a timed lock shows it and times out.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t mutex;
	CHECK_EQ(pthread_mutexattr_init(&attr), 0);
	CHECK_EQ(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_NORMAL), 0);
	CHECK_EQ(pthread_mutex_init(&mutex, &attr), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	struct timespec at = moment(CLOCK_REALTIME, 20);
	long start = now_ms();
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &at), ETIMEDOUT);
	CHECK(now_ms() - start >= 18);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return 0;
}
