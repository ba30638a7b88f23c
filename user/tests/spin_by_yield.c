/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that spin by sched_yield leave the processor to the one that they wait for, whichever
 * kernel thread that is: the main thread here, with one processor for all of them. One that pauses
 * for long before each yield leaves it at the first one.
 */
#define _GNU_SOURCE
#include "check.h"

enum {
	THREADS = 6,
	ROUNDS = 300,
	STEPS = 3000,
	/* Of each thread in each round. Where they did not, the kernel's slices have room for more
	 * than 2000. */
	YIELDS_MAX = 700,
	TURNS = 200,
	PAUSES = 20000,
	YIELDS_PER_TURN_MAX = 8,
};

static int phase, seen;
static long yields;

static void *spins(void *unused)
{
	long own = 0;

	for (int round = 1; round <= ROUNDS; round++) {
		while (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) < round) {
			sched_yield();
			own++;
		}
		__atomic_fetch_add(&seen, 1, __ATOMIC_ACQ_REL);
	}
	__atomic_fetch_add(&yields, own, __ATOMIC_RELAXED);
	return unused;
}

static int turn;

/* Hands the turn back and forth; how often it has yielded. */
static long takes_turns(int own)
{
	long count = 0;

	for (int i = 0; i < TURNS; i++) {
		while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != own) {
			for (volatile int k = 0; k < PAUSES; k++)
				;
			sched_yield();
			count++;
		}
		__atomic_store_n(&turn, !own, __ATOMIC_RELEASE);
	}
	return count;
}

static void *pauses(void *unused)
{
	yields = takes_turns(1);
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS];
	cpu_set_t all, one;
	int cpu = 0;

	CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, spins, NULL), 0);
	for (int round = 1; round <= ROUNDS; round++) {
		for (volatile int i = 0; i < STEPS; i++)
			;
		__atomic_store_n(&phase, round, __ATOMIC_RELEASE);
		while (__atomic_load_n(&seen, __ATOMIC_ACQUIRE) < round * THREADS)
			sched_yield();
	}
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	printf("%ld yields of each in a round\n", yields / THREADS / ROUNDS);
	CHECK(yields <= (long)YIELDS_MAX * THREADS * ROUNDS);
	CHECK_EQ(pthread_create(&threads[0], NULL, pauses, NULL), 0);
	takes_turns(0);
	CHECK_EQ(pthread_join(threads[0], NULL), 0);
	printf("%ld yields in a turn\n", yields / TURNS);
	CHECK(yields <= (long)YIELDS_PER_TURN_MAX * TURNS);
	return 0;
}
