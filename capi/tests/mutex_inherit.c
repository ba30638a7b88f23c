/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A mutex with priority inheritance behaves as any mutex, of every type.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex;
static volatile int counter;

static void *counts(void *arg)
{
	for (int i = 0; i < 200; i++) {
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
		int seen = counter;
		if (i % 20 == 0)
			sched_yield();
		counter = seen + 1;
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	}
	return arg;
}

int main(void)
{
	static const int types[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
				     PTHREAD_MUTEX_ERRORCHECK };
	pthread_mutexattr_t attr;
	CHECK_EQ(pthread_mutexattr_init(&attr), 0);
	CHECK_EQ(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT), 0);
	for (int i = 0; i < 3; i++) {
		pthread_t threads[4];
		counter = 0;
		CHECK_EQ(pthread_mutexattr_settype(&attr, types[i]), 0);
		CHECK_EQ(pthread_mutex_init(&mutex, &attr), 0);
		for (int j = 0; j < 4; j++)
			threads[j] = start_thread(counts, NULL);
		counts(NULL);
		for (int j = 0; j < 4; j++)
			join_thread(threads[j]);
		CHECK_EQ(counter, 1000);
		CHECK_EQ(pthread_mutex_destroy(&mutex), 0);
	}
	return 0;
}
