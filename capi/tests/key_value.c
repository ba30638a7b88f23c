/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A value belongs to one thread and one key; it starts as NULL, also for a key that is created
 * later.
 */
#define _GNU_SOURCE
#include "check.h"

enum { THREADS = 8, KEYS = 40 };
static pthread_key_t keys[KEYS], late;
static pthread_barrier_t barrier;

static void *uses(void *arg)
{
	intptr_t mine = (intptr_t)arg;
	for (int k = 0; k < KEYS; k++)
		CHECK(pthread_getspecific(keys[k]) == NULL);
	for (int k = 0; k < KEYS; k++)
		CHECK_EQ(pthread_setspecific(keys[k], (void *)(mine * 1000 + k)), 0);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	CHECK(pthread_getspecific(late) == NULL);
	for (int k = 0; k < KEYS; k++)
		CHECK_EQ((intptr_t)pthread_getspecific(keys[k]), mine * 1000 + k);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (int k = 0; k < KEYS; k++)
		CHECK_EQ(pthread_key_create(&keys[k], NULL), 0);
	CHECK_EQ(pthread_barrier_init(&barrier, NULL, THREADS + 1), 0);
	for (intptr_t i = 0; i < THREADS; i++)
		threads[i] = start_thread(uses, (void *)(i + 1));
	pthread_barrier_wait(&barrier);
	CHECK_EQ(pthread_key_create(&late, NULL), 0);
	CHECK_EQ(pthread_setspecific(late, &late), 0);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	CHECK(pthread_getspecific(keys[0]) == NULL);
	CHECK(pthread_getspecific(late) == &late);
	return 0;
}
