/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A new thread has no values, whatever a thread set before it that had the same stack: without a
 * destructor nothing takes them away. Some threads set none, some one of the first keys, some one
 * of the later ones.
 */
#include "check.h"

enum { KEYS = 100, ROUNDS = 400 };

static pthread_key_t keys[KEYS];

static void *nothing(void *arg)
{
	return arg;
}

static void *start(void *arg)
{
	int round = (int)(intptr_t)arg;
	for (int i = 0; i < KEYS; i++)
		CHECK(pthread_getspecific(keys[i]) == NULL);
	if (round % 3 == 1)
		CHECK_EQ(pthread_setspecific(keys[round % 20], arg), 0);
	if (round % 3 == 2)
		CHECK_EQ(pthread_setspecific(keys[40 + round % 60], arg), 0);
	if (round % 12 == 1)
		CHECK_EQ(pthread_setspecific(keys[round % 20], NULL), 0);
	return NULL;
}

int main(void)
{
	/* The library may look at the first key that it gets, as threads begin. */
	join_thread(start_thread(nothing, NULL));
	for (int i = 0; i < KEYS; i++)
		CHECK_EQ(pthread_key_create(&keys[i], NULL), 0);
	for (int round = 0; round < ROUNDS; round++)
		join_thread(start_thread(start, (void *)(intptr_t)round));
	pthread_t threads[20];
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 20; i++)
			threads[i] = start_thread(start, (void *)(intptr_t)(round + i));
		for (int i = 0; i < 20; i++)
			join_thread(threads[i]);
	}
	return 0;
}
