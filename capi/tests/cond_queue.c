/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Producers and consumers pass every item exactly once through a bounded buffer.
 */
#define _GNU_SOURCE
#include "check.h"

enum { ITEMS = 2000, SLOTS = 7 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static int buffer[SLOTS], used, next_in, next_out;

static void *produces(void *arg)
{
	for (int i = 1; i <= ITEMS; i++) {
		pthread_mutex_lock(&mutex);
		while (used == SLOTS)
			pthread_cond_wait(&not_full, &mutex);
		buffer[next_in++ % SLOTS] = i;
		used++;
		pthread_cond_signal(&not_empty);
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static void *consumes(void *arg)
{
	(void)arg;
	intptr_t sum = 0;
	for (int i = 0; i < ITEMS; i++) {
		pthread_mutex_lock(&mutex);
		while (used == 0)
			pthread_cond_wait(&not_empty, &mutex);
		sum += buffer[next_out++ % SLOTS];
		used--;
		pthread_cond_signal(&not_full);
		pthread_mutex_unlock(&mutex);
	}
	return (void *)sum;
}

int main(void)
{
	pthread_t producers[3], consumers[3];
	for (int i = 0; i < 3; i++) {
		producers[i] = start_thread(produces, NULL);
		consumers[i] = start_thread(consumes, NULL);
	}
	intptr_t sum = 0;
	for (int i = 0; i < 3; i++) {
		join_thread(producers[i]);
		sum += (intptr_t)join_thread(consumers[i]);
	}
	CHECK_EQ(sum, 3L * ITEMS * (ITEMS + 1) / 2);
	return 0;
}
