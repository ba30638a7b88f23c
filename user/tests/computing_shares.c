/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that compute get about as much CPU time each, also where there are more than processors
 * and none of them ever waits: three on two processors do not share them as one and two.
 */
#define _GNU_SOURCE
#include "check.h"

enum {
	THREADS = 3,
	RUN_MS = 1500,
	/* Other programs take of the processors what they like, and not evenly: tries count beside
	 * few that compute. */
	TRIES = 12,
	TRIES_MAX = 24,
	OTHERS_MAX = 2,
	/* Where it is always the same one that has a processor for itself it is 200, and 150 where
	 * one other has it now and then. */
	PERCENT_MAX = 140,
};

static int ends;

static void *computes(void *used)
{
	volatile unsigned number = 1;
	struct timespec now;

	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED))
		for (int i = 0; i < 1000; i++)
			number = number * 1664525 + 1013904223;
	CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
	*(long *)used = now.tv_sec * 1000 + now.tv_nsec / 1000000;
	return NULL;
}

/* Kernel threads that have a processor or wait for one; 0 if it cannot be told. */
static int running(void)
{
	FILE *file = fopen("/proc/loadavg", "r");
	int count = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%*s %*s %*s %d", &count) != 1)
		count = 0;
	fclose(file);
	return count;
}

static int busy;

/* How much the one has that has most, of 100 of the one that has least. */
static long percent(void)
{
	pthread_t threads[THREADS];
	long used[THREADS], least, most;

	__atomic_store_n(&ends, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, computes, &used[i]), 0);
	sleep_ms(RUN_MS / 2);
	busy = running();
	sleep_ms(RUN_MS / 2);
	__atomic_store_n(&ends, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	least = most = used[0];
	for (int i = 1; i < THREADS; i++) {
		least = used[i] < least ? used[i] : least;
		most = used[i] > most ? used[i] : most;
	}
	printf("%ld to %ld ms\n", least, most);
	return least == 0 ? 100 * most : 100 * most / least;
}

/* Two processors, or one if there are no more. */
static void take_two(void)
{
	cpu_set_t all, two;

	CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
	CPU_ZERO(&two);
	for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &two);
	CHECK_EQ(sched_setaffinity(0, sizeof two, &two), 0);
}

int main(void)
{
	take_two();
	int counted = 0;

	for (int i = 0; i < TRIES_MAX && counted < TRIES; i++) {
		if (percent() <= PERCENT_MAX)
			return 0;
		/* This one tells of itself, too. */
		counted += busy <= THREADS + 1 + OTHERS_MAX;
	}
	if (counted < TRIES)
		SKIP("other programs compute");
	CHECK(!"equal shares");
}
