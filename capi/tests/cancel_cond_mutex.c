/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that is cancelled in a condition wait holds the mutex again when its handlers run.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waiting, timed;

static void unlocks(void *arg)
{
	/* Error-checking: EPERM unless the mutex is held by this thread. */
	*(int *)arg = pthread_mutex_unlock(&mutex);
}

static void *waits(void *arg)
{
	struct timespec at = moment(CLOCK_REALTIME, 100000);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	pthread_cleanup_push(unlocks, arg);
	set_value(&waiting, 1);
	for (;;) {
		if (timed)
			pthread_cond_timedwait(&cond, &mutex, &at);
		else
			pthread_cond_wait(&cond, &mutex);
	}
	pthread_cleanup_pop(0);
	return NULL;
}

int main(void)
{
	pthread_mutexattr_t attr;
	CHECK_EQ(pthread_mutexattr_init(&attr), 0);
	CHECK_EQ(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK), 0);
	CHECK_EQ(pthread_mutex_init(&mutex, &attr), 0);
	for (timed = 0; timed < 2; timed++) {
		int unlocked = -1;
		set_value(&waiting, 0);
		pthread_t thread = start_thread(waits, &unlocked);
		await_value(&waiting, 1);
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
		CHECK_EQ(pthread_cancel(thread), 0);
		sleep_ms(5);
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
		CHECK(join_thread(thread) == PTHREAD_CANCELED);
		CHECK_EQ(unlocked, 0);
	}
	CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
	return 0;
}
