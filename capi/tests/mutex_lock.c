/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A mutex excludes: counters that are read, left and written back come out right.
 */
#define _GNU_SOURCE
#include "check.h"

enum { THREADS = 8, ROUNDS = 500 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int counter;

static void *counts(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
		int seen = counter;
		if (i % 10 == 0)
			sched_yield();
		counter = seen + 1;
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	}
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(counts, NULL);
	/* main takes part: it is a kernel thread. */
	counts(NULL);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	CHECK_EQ(counter, (THREADS + 1) * ROUNDS);
	return 0;
}
