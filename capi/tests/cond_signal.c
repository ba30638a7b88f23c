/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A signal wakes at least one waiter, and waits happen with the mutex released and return with
 * it held.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waiting, tokens, taken;

static void *takes(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	waiting++;
	while (tokens == 0)
		CHECK_EQ(pthread_cond_wait(&cond, &mutex), 0);
	tokens--;
	taken++;
	CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return arg;
}

static int look(int *word)
{
	pthread_mutex_lock(&mutex);
	int value = *word;
	pthread_mutex_unlock(&mutex);
	return value;
}

int main(void)
{
	pthread_t threads[5];
	/* Without waiters a signal is lost. */
	CHECK_EQ(pthread_cond_signal(&cond), 0);
	for (int i = 0; i < 5; i++)
		threads[i] = start_thread(takes, NULL);
	while (look(&waiting) != 5)
		sched_yield();
	for (int i = 1; i <= 5; i++) {
		CHECK_EQ(look(&taken), i - 1);
		pthread_mutex_lock(&mutex);
		tokens++;
		CHECK_EQ(pthread_cond_signal(&cond), 0);
		pthread_mutex_unlock(&mutex);
		long end = now_ms() + 40000;
		while (look(&taken) != i && now_ms() < end)
			sched_yield();
		CHECK_EQ(look(&taken), i);
	}
	for (int i = 0; i < 5; i++)
		join_thread(threads[i]);
	CHECK_EQ(pthread_cond_destroy(&cond), 0);
	return 0;
}
