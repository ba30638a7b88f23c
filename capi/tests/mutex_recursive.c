/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A recursive mutex counts its owner's locks; others are kept out until the last unlock, and may
 * not unlock.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex;

static void *tries(void *arg)
{
	(void)arg;
	CHECK_EQ(pthread_mutex_unlock(&mutex), EPERM);
	int error = pthread_mutex_trylock(&mutex);
	if (error == 0)
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return (void *)(intptr_t)error;
}

static int try_elsewhere(void)
{
	return (int)(intptr_t)join_thread(start_thread(tries, NULL));
}

int main(void)
{
	pthread_mutexattr_t attr;
	CHECK_EQ(pthread_mutexattr_init(&attr), 0);
	CHECK_EQ(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE), 0);
	CHECK_EQ(pthread_mutex_init(&mutex, &attr), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
	for (int left = 3; left > 0; left--) {
		CHECK_EQ(try_elsewhere(), EBUSY);
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	}
	CHECK_EQ(pthread_mutex_unlock(&mutex), EPERM);
	CHECK_EQ(try_elsewhere(), 0);
	CHECK_EQ(pthread_mutex_destroy(&mutex), 0);
	return 0;
}
