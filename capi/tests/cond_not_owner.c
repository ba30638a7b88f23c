/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A wait with a mutex that knows its owner, who is not the caller, is EPERM.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	static const int types[] = { PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK };
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	for (int i = 0; i < 2; i++) {
		pthread_mutexattr_t attr;
		pthread_mutex_t mutex;
		struct timespec at = moment(CLOCK_REALTIME, 1000);
		CHECK_EQ(pthread_mutexattr_init(&attr), 0);
		CHECK_EQ(pthread_mutexattr_settype(&attr, types[i]), 0);
		CHECK_EQ(pthread_mutex_init(&mutex, &attr), 0);
		CHECK_EQ(pthread_cond_wait(&cond, &mutex), EPERM);
		CHECK_EQ(pthread_cond_timedwait(&cond, &mutex, &at), EPERM);
	}
	return 0;
}
