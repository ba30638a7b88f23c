/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A mutex is not destroyed while somebody holds it, or waits for a condition and will take it
 * again; when all waits have ended, in whatever way, it is.
 */
#define _GNU_SOURCE
#include "check.h"

enum { WAITERS = 3 };

static pthread_mutex_t lock;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waiting, is_over;

static void unlocks(void *arg)
{
	(void)arg;
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
}

static void *waits(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	waiting++;
	pthread_cleanup_push(unlocks, NULL);
	while (!is_over)
		CHECK_EQ(pthread_cond_wait(&cond, &lock), 0);
	pthread_cleanup_pop(1);
	return arg;
}

static void make_waiters(pthread_t waiters[WAITERS])
{
	waiting = is_over = 0;
	for (int i = 0; i < WAITERS; i++)
		waiters[i] = start_thread(waits, NULL);
	for (int count = 0; count < WAITERS;) {
		sleep_ms(1);
		CHECK_EQ(pthread_mutex_lock(&lock), 0);
		count = waiting;
		if (count == WAITERS)
			CHECK_EQ(pthread_mutex_destroy(&lock), EBUSY);
		CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	}
	CHECK_EQ(pthread_mutex_destroy(&lock), EBUSY);
}

static void *destroys(void *arg)
{
	pthread_t waiters[WAITERS];
	struct timespec now;

	make_waiters(waiters);
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	is_over = 1;
	CHECK_EQ(pthread_cond_broadcast(&cond), 0);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	for (int i = 0; i < WAITERS; i++)
		join_thread(waiters[i]);
	make_waiters(waiters);
	for (int i = 0; i < WAITERS; i++) {
		CHECK_EQ(pthread_mutex_destroy(&lock), EBUSY);
		CHECK_EQ(pthread_cancel(waiters[i]), 0);
		CHECK_EQ(pthread_join(waiters[i], NULL), 0);
	}
	clock_gettime(CLOCK_REALTIME, &now);
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	CHECK_EQ(pthread_cond_timedwait(&cond, &lock, &now), ETIMEDOUT);
	CHECK_EQ(pthread_mutex_destroy(&lock), EBUSY);
	unlocks(NULL);
	CHECK_EQ(pthread_mutex_destroy(&lock), 0);
	return arg;
}

static void destroy_one(int kind)
{
	pthread_mutexattr_t attributes;

	CHECK_EQ(pthread_mutexattr_init(&attributes), 0);
	CHECK_EQ(pthread_mutexattr_settype(&attributes, kind), 0);
	CHECK_EQ(pthread_mutex_init(&lock, &attributes), 0);
	destroys(NULL);
	CHECK_EQ(pthread_mutex_init(&lock, &attributes), 0);
	join_thread(start_thread(destroys, NULL));
	CHECK_EQ(pthread_mutexattr_destroy(&attributes), 0);
}

int main(void)
{
	destroy_one(PTHREAD_MUTEX_NORMAL);
	destroy_one(PTHREAD_MUTEX_ERRORCHECK);
	destroy_one(PTHREAD_MUTEX_RECURSIVE);
	return 0;
}
