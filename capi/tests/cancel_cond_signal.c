/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A cancelled waiter does not swallow a signal that another waiter could have taken.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waiting, tokens, taken;

static void unlocks(void *arg)
{
	pthread_mutex_unlock(arg);
}

static void *takes(void *arg)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlocks, &mutex);
	waiting++;
	while (tokens == 0)
		pthread_cond_wait(&cond, &mutex);
	tokens--;
	taken++;
	pthread_cleanup_pop(1);
	return arg;
}

static int count_waiting(void)
{
	pthread_mutex_lock(&mutex);
	int count = waiting;
	pthread_mutex_unlock(&mutex);
	return count;
}

int main(void)
{
	for (int round = 0; round < 20; round++) {
		waiting = tokens = taken = 0;
		pthread_t doomed = start_thread(takes, NULL);
		pthread_t other = start_thread(takes, NULL);
		while (count_waiting() != 2)
			sched_yield();
		pthread_mutex_lock(&mutex);
		CHECK_EQ(pthread_cancel(doomed), 0);
		tokens = 1;
		CHECK_EQ(pthread_cond_signal(&cond), 0);
		pthread_mutex_unlock(&mutex);
		void *result = join_thread(doomed);
		if (result == PTHREAD_CANCELED) {
			/* The token is for the other one, which must hear of it. */
			join_thread(other);
		} else {
			pthread_mutex_lock(&mutex);
			tokens = 1;
			pthread_mutex_unlock(&mutex);
			pthread_cond_signal(&cond);
			join_thread(other);
		}
		CHECK_EQ(tokens, 0);
	}
	return 0;
}
