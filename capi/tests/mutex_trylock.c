/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * trylock takes a free mutex and answers EBUSY for a held one, whoever holds it.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *tries(void *arg)
{
	(void)arg;
	int error = pthread_mutex_trylock(&mutex);
	if (error == 0)
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return (void *)(intptr_t)error;
}

int main(void)
{
	CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
	CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
	CHECK_EQ((intptr_t)join_thread(start_thread(tries, NULL)), EBUSY);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ((intptr_t)join_thread(start_thread(tries, NULL)), 0);
	return 0;
}
