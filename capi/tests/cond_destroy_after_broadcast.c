/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A condition variable may be destroyed and freed as soon as all its waiters have been woken.
 */
#define _GNU_SOURCE
#include "check.h"

struct gate {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int waiting, open;
};

static void *waits(void *arg)
{
	struct gate *gate = arg;
	pthread_mutex_lock(&gate->mutex);
	gate->waiting++;
	while (!gate->open)
		pthread_cond_wait(&gate->cond, &gate->mutex);
	gate->waiting--;
	pthread_mutex_unlock(&gate->mutex);
	return NULL;
}

int main(void)
{
	for (int round = 0; round < 100; round++) {
		struct gate *gate = calloc(1, sizeof *gate);
		pthread_t threads[3];
		CHECK_EQ(pthread_mutex_init(&gate->mutex, NULL), 0);
		CHECK_EQ(pthread_cond_init(&gate->cond, NULL), 0);
		for (int i = 0; i < 3; i++)
			threads[i] = start_thread(waits, gate);
		pthread_mutex_lock(&gate->mutex);
		while (gate->waiting != 3) {
			pthread_mutex_unlock(&gate->mutex);
			sched_yield();
			pthread_mutex_lock(&gate->mutex);
		}
		gate->open = 1;
		CHECK_EQ(pthread_cond_broadcast(&gate->cond), 0);
		/* POSIX allows this here: no thread is blocked on it any more. */
		CHECK_EQ(pthread_cond_destroy(&gate->cond), 0);
		pthread_mutex_unlock(&gate->mutex);
		for (int i = 0; i < 3; i++)
			join_thread(threads[i]);
		free(gate);
	}
	return 0;
}
