/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that do nothing but make calls do not keep a thread from the CPU that wakes now and then:
 * whatever they are in when they are to make room, they make it.
 */
#define _GNU_SOURCE
#include "busy_calls.h"

enum { BUSY_MAX = 64, WAKES = 100, PAUSE_US = 1000, TRIES = 5, PATIENCE_S = 30 };
/* Beside threads that make no calls the wakes take so many seconds; here no more than three times
 * as long, and this. Where each wake waits for luck, or for some refusals, it takes a second or
 * more, however often it is tried. */
#define BESIDES 0.2

static int end;

static void *computes(void *call)
{
	void (*const make)(void) = *(void (*const *)(void))call;
	while (!__atomic_load_n(&end, __ATOMIC_RELAXED))
		make();
	return NULL;
}

static double until, taken;
static int woken;

/* Stops when it is over. */
static void *wakes(void *unused)
{
	const double begin = now();
	for (woken = 0; woken < WAKES && now() < until; woken++)
		CHECK_EQ(usleep(PAUSE_US), 0);
	taken = now() - begin;
	__atomic_store_n(&end, 1, __ATOMIC_RELAXED);
	return unused;
}

/* Whether all wakes come within so many seconds beside threads that make a call. */
static int come_beside(void (*const *call)(void), double seconds)
{
	pthread_t busy[BUSY_MAX], one;
	/* More than there are workers. */
	const long two_each = 2 * sysconf(_SC_NPROCESSORS_ONLN) + 2;
	const int count = two_each < BUSY_MAX ? (int)two_each : BUSY_MAX;
	until = now() + seconds;
	__atomic_store_n(&end, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < count; i++)
		CHECK_EQ(pthread_create(&busy[i], NULL, computes, (void *)(uintptr_t)call), 0);
	CHECK_EQ(pthread_create(&one, NULL, wakes, NULL), 0);
	CHECK_EQ(pthread_join(one, NULL), 0);
	for (int i = 0; i < count; i++)
		CHECK_EQ(pthread_join(busy[i], NULL), 0);
	return woken == WAKES;
}

int main(void)
{
	prepare_calls();
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		int tries = 0;
		do {
			CHECK(tries++ < TRIES);
			CHECK(come_beside(&none, PATIENCE_S));
		} while (!come_beside(&calls[i], 3 * taken + BESIDES));
	}
	return 0;
}
