/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * An error-checking mutex reports relocking (EDEADLK) and unlocking what one does not hold
 * (EPERM).
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex;

static void *unlocks(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)pthread_mutex_unlock(&mutex);
}

int main(void)
{
	pthread_mutexattr_t attr;
	struct timespec at = moment(CLOCK_REALTIME, 50);
	CHECK_EQ(pthread_mutexattr_init(&attr), 0);
	CHECK_EQ(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK), 0);
	CHECK_EQ(pthread_mutex_init(&mutex, &attr), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), EPERM);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), EDEADLK);
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &at), EDEADLK);
	CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
	CHECK_EQ((intptr_t)join_thread(start_thread(unlocks, NULL)), EPERM);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), EPERM);
	return 0;
}
