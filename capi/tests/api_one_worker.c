/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * On a single worker, threads that wait for each other in every way still all make progress.
 */
#define _GNU_SOURCE
#include "check.h"

enum { COUNT = 30 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static int turn;

static void *works(void *arg)
{
	int mine = (int)(intptr_t)arg;
	pthread_mutex_lock(&mutex);
	while (turn != mine)
		pthread_cond_wait(&cond, &mutex);
	turn++;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&mutex);
	if (mine % 3 == 0)
		pthread_rwlock_wrlock(&lock);
	else
		pthread_rwlock_rdlock(&lock);
	sleep_ms(1);
	pthread_rwlock_unlock(&lock);
	pthread_barrier_wait(&barrier);
	return NULL;
}

int main(void)
{
#ifdef HEDDLE_PTHREAD_H
	struct heddle_config config = { .size_bytes = sizeof config, .workers = 1 };
	CHECK_EQ(heddle_configure(&config), 0);
#endif
	pthread_t threads[COUNT];
	CHECK_EQ(pthread_barrier_init(&barrier, NULL, COUNT), 0);
	for (intptr_t i = COUNT - 1; i >= 0; i--)
		threads[i] = start_thread(works, (void *)i);
	for (int i = 0; i < COUNT; i++)
		join_thread(threads[i]);
	CHECK_EQ(turn, COUNT);
	return 0;
}
