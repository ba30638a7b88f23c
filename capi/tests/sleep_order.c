/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that sleep for different times wake in the order of their times.
 */
#define _GNU_SOURCE
#include "check.h"

enum { COUNT = 5, GAP_MS_MAX = 4000 };
static int woken[COUNT], next;
static long gap_ms;
static struct timespec start;

static void *sleeps(void *arg)
{
	int i = (int)(intptr_t)arg;
	struct timespec at = start;
	long ns = at.tv_nsec + (20 + gap_ms * (COUNT - 1 - i)) * 1000000;
	at.tv_sec += ns / 1000000000;
	at.tv_nsec = ns % 1000000000;
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL), 0);
	woken[add_value(&next, 1) - 1] = i;
	return NULL;
}

static int in_order(void)
{
	pthread_t threads[COUNT];
	next = 0;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (intptr_t i = 0; i < COUNT; i++)
		threads[i] = start_thread(sleeps, (void *)i);
	for (int i = 0; i < COUNT; i++)
		join_thread(threads[i]);
	for (int i = 0; i < COUNT; i++)
		if (woken[i] != COUNT - 1 - i)
			return 0;
	return 1;
}

int main(void)
{
	/* On a busy machine a wake may come so late: one round in order is enough. */
	for (gap_ms = 40; !in_order(); gap_ms *= 2)
		CHECK(gap_ms < GAP_MS_MAX);
	return 0;
}
