/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The serial thread may destroy and free the barrier at once, though others are still on their
 * way out.
 */
#define _GNU_SOURCE
#include "check.h"

static void *waits(void *arg)
{
	pthread_barrier_t *barrier = arg;
	if (pthread_barrier_wait(barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
		CHECK_EQ(pthread_barrier_destroy(barrier), 0);
		memset(barrier, 0xee, sizeof *barrier);
		free(barrier);
	}
	return NULL;
}

int main(void)
{
	for (int round = 0; round < 200; round++) {
		pthread_barrier_t *barrier = malloc(sizeof *barrier);
		pthread_t threads[3];
		CHECK_EQ(pthread_barrier_init(barrier, NULL, 4), 0);
		for (int i = 0; i < 3; i++)
			threads[i] = start_thread(waits, barrier);
		waits(barrier);
		for (int i = 0; i < 3; i++)
			join_thread(threads[i]);
	}
	return 0;
}
