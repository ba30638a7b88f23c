/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Mutexes with a priority ceiling: every call's answer, and that they exclude.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex;
static int counter;

static void *counts(void *arg)
{
	for (int i = 0; i < 2000; i++) {
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
		int seen = counter;
		if (i % 50 == 0)
			sched_yield();
		counter = seen + 1;
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	}
	return arg;
}

static void *tries(void *arg)
{
	struct timespec at = moment(CLOCK_REALTIME, 10);
	CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &at), ETIMEDOUT);
	return arg;
}

int main(void)
{
	pthread_mutexattr_t attr;
	int ceiling = -1, protocol = -1;
	CHECK_EQ(pthread_mutexattr_init(&attr), 0);
	CHECK_EQ(pthread_mutexattr_setprotocol(&attr, 77), EINVAL);
	CHECK_EQ(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_PROTECT), 0);
	CHECK_EQ(pthread_mutexattr_getprotocol(&attr, &protocol), 0);
	CHECK_EQ(protocol, PTHREAD_PRIO_PROTECT);
	CHECK_EQ(pthread_mutexattr_setprioceiling(&attr, 1000), EINVAL);
	CHECK_EQ(pthread_mutexattr_setprioceiling(&attr, 40), 0);
	CHECK_EQ(pthread_mutex_init(&mutex, &attr), 0);
	CHECK_EQ(pthread_mutex_getprioceiling(&mutex, &ceiling), 0);
	CHECK_EQ(ceiling, 40);
	/* Natively only real-time threads can have it; those that are made below inherit that. */
	struct sched_param param = { .sched_priority = 1 };
	if (pthread_setschedparam(pthread_self(), SCHED_RR, &param) != 0)
		SKIP("no privilege for real-time priorities");
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	join_thread(start_thread(tries, NULL));
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);

	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		threads[i] = start_thread(counts, NULL);
	for (int i = 0; i < 4; i++)
		join_thread(threads[i]);
	CHECK_EQ(counter, 8000);

	CHECK_EQ(pthread_mutex_setprioceiling(&mutex, 1000, &ceiling), EINVAL);
	CHECK_EQ(pthread_mutex_setprioceiling(&mutex, 50, &ceiling), 0);
	CHECK_EQ(ceiling, 40);
	CHECK_EQ(pthread_mutex_getprioceiling(&mutex, &ceiling), 0);
	CHECK_EQ(ceiling, 50);
	CHECK_EQ(pthread_mutex_destroy(&mutex), 0);

	pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
	CHECK_EQ(pthread_mutex_getprioceiling(&plain, &ceiling), EINVAL);
	CHECK_EQ(pthread_mutex_setprioceiling(&plain, 10, &ceiling), EINVAL);
	return 0;
}
