/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A barrier lets nobody through before all are there, and names one serial thread in each round.
 */
#define _GNU_SOURCE
#include "check.h"

enum { THREADS = 7, ROUNDS = 100 };
static pthread_barrier_t barrier;
static int arrived[ROUNDS], serial[ROUNDS];

static void *rounds(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		add_value(&arrived[i], 1);
		int result = pthread_barrier_wait(&barrier);
		CHECK_EQ(__atomic_load_n(&arrived[i], __ATOMIC_SEQ_CST), THREADS);
		if (result == PTHREAD_BARRIER_SERIAL_THREAD)
			add_value(&serial[i], 1);
		else
			CHECK_EQ(result, 0);
	}
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];
	CHECK_EQ(pthread_barrier_init(&barrier, NULL, THREADS), 0);
	for (int i = 0; i < THREADS - 1; i++)
		threads[i] = start_thread(rounds, NULL);
	rounds(NULL);
	for (int i = 0; i < THREADS - 1; i++)
		join_thread(threads[i]);
	for (int i = 0; i < ROUNDS; i++)
		CHECK_EQ(serial[i], 1);
	CHECK_EQ(pthread_barrier_destroy(&barrier), 0);
	return 0;
}
