/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Semaphore and condition waits and the joins are cancellation points.
 */
#define _GNU_SOURCE
#include "check.h"

static sem_t sem;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_t forever;

static void unlocks(void *arg)
{
	pthread_mutex_unlock(arg);
}

static void in_sem_wait(void)
{
	sem_wait(&sem);
}

static void in_sem_timedwait(void)
{
	struct timespec at = moment(CLOCK_REALTIME, 100000);
	sem_timedwait(&sem, &at);
}

static void in_sem_clockwait(void)
{
	struct timespec at = moment(CLOCK_MONOTONIC, 100000);
	sem_clockwait(&sem, CLOCK_MONOTONIC, &at);
}

static void in_cond_wait(void)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlocks, &mutex);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
	pthread_cleanup_pop(1);
}

static void in_cond_clockwait(void)
{
	struct timespec at = moment(CLOCK_MONOTONIC, 100000);
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlocks, &mutex);
	for (;;)
		pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &at);
	pthread_cleanup_pop(1);
}

static void in_timedjoin(void)
{
	struct timespec at = moment(CLOCK_REALTIME, 100000);
	pthread_timedjoin_np(forever, NULL, &at);
}

static void in_join(void)
{
	pthread_join(forever, NULL);
}

static void (*const calls[])(void) = { in_sem_wait,  in_sem_timedwait,  in_sem_clockwait,
				       in_cond_wait, in_cond_clockwait, in_timedjoin,
				       in_join };

static void *blocks(void *arg)
{
	calls[(intptr_t)arg]();
	return NULL;
}

static void *sleeps(void *arg)
{
	sleep(100);
	return arg;
}

int main(void)
{
	CHECK_EQ(sem_init(&sem, 0, 0), 0);
	forever = start_thread(sleeps, NULL);
	for (size_t i = 0; i < sizeof calls / sizeof calls[0] * 2; i++) {
		pthread_t thread = start_thread(blocks, (void *)(i / 2));
		if (i % 2)
			sleep_ms(5);
		CHECK_EQ(pthread_cancel(thread), 0);
		CHECK(join_thread(thread) == PTHREAD_CANCELED);
	}
	CHECK_EQ(pthread_cancel(forever), 0);
	CHECK(join_thread(forever) == PTHREAD_CANCELED);
	/* No waiter is left behind in the queues. */
	CHECK_EQ(sem_post(&sem), 0);
	CHECK_EQ(sem_wait(&sem), 0);
	CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
	CHECK_EQ(pthread_cond_signal(&cond), 0);
	CHECK_EQ(pthread_cond_destroy(&cond), 0);
	return 0;
}
