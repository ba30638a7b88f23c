/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A broadcast wakes all waiters.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_here = PTHREAD_COND_INITIALIZER, go = PTHREAD_COND_INITIALIZER;
static int here, generation;

static void *waits(void *arg)
{
	pthread_mutex_lock(&mutex);
	for (int round = 0; round < 10; round++) {
		if (++here == 20)
			CHECK_EQ(pthread_cond_signal(&all_here), 0);
		while (generation == round)
			CHECK_EQ(pthread_cond_wait(&go, &mutex), 0);
	}
	pthread_mutex_unlock(&mutex);
	return arg;
}

int main(void)
{
	pthread_t threads[20];
	for (int i = 0; i < 20; i++)
		threads[i] = start_thread(waits, NULL);
	for (int round = 0; round < 10; round++) {
		pthread_mutex_lock(&mutex);
		while (here != 20)
			CHECK_EQ(pthread_cond_wait(&all_here, &mutex), 0);
		here = 0;
		generation++;
		CHECK_EQ(pthread_cond_broadcast(&go), 0);
		pthread_mutex_unlock(&mutex);
	}
	for (int i = 0; i < 20; i++)
		join_thread(threads[i]);
	return 0;
}
