/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Cancelling threads at arbitrary moments leaves every lock free and every handler run.
 */
#define _GNU_SOURCE
#include "check.h"

enum { THREADS = 16, ROUNDS = 20 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int handlers;
static int ends[2];

static void unlocks(void *arg)
{
	(void)arg;
	pthread_mutex_unlock(&mutex);
}

static void counts(void *arg)
{
	(void)arg;
	add_value(&handlers, 1);
}

static void *works(void *arg)
{
	volatile unsigned random = (unsigned)(uintptr_t)arg * 2654435761u;
	char byte;
	pthread_cleanup_push(counts, NULL);
	for (;;) {
		random = random * 1664525u + 1013904223u;
		pthread_mutex_lock(&mutex);
		pthread_cleanup_push(unlocks, NULL);
		if (random >> 31)
			sleep_ms(random >> 29 & 1);
		pthread_cleanup_pop(1);
		if (random >> 30 & 1)
			sched_yield();
		else if (random >> 28 & 1 && read(ends[0], &byte, 1) < 0)
			CHECK(0);
		pthread_testcancel();
	}
	pthread_cleanup_pop(0);
	return NULL;
}

int main(void)
{
	CHECK_EQ(pipe(ends), 0);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t threads[THREADS];
		for (intptr_t i = 0; i < THREADS; i++)
			threads[i] = start_thread(works, (void *)(round * THREADS + i + 1));
		if (round % 2)
			sleep_ms(round % 3);
		for (int i = 0; i < THREADS; i++)
			CHECK_EQ(pthread_cancel(threads[i]), 0);
		for (int i = 0; i < THREADS; i++)
			CHECK(join_thread(threads[i]) == PTHREAD_CANCELED);
		CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	}
	/* A thread cancelled before it ran its first line still reaches the push. */
	CHECK_EQ(handlers, THREADS * ROUNDS);
	return 0;
}
