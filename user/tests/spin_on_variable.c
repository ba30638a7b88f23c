/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that wait for each other by nothing but looking at a variable all get their turns.
 */
#include "check.h"

#define THREADS 8
#define TURNS 10

static volatile int turn;

static void *start(void *arg)
{
	int me = (int)(intptr_t)arg;
	for (int i = 0; i < TURNS; i++) {
		while (turn != me)
			;
		turn = (me + 1) % THREADS;
	}
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(start, (void *)(intptr_t)i);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	return 0;
}
