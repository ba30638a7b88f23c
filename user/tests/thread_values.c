/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Each thread has its own errno, thread-locals, result and name; the main thread has them, too.
 */
#define _GNU_SOURCE
#include "check.h"

#define THREADS 200
#define ROUNDS 50

static __thread int own;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static int arrived;

static void *start(void *arg)
{
	int me = (int)(intptr_t)arg;
	own = me;
	errno = me;
	pthread_mutex_lock(&lock);
	if (++arrived == THREADS)
		pthread_cond_broadcast(&turn);
	while (arrived < THREADS)
		pthread_cond_wait(&turn, &lock);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < ROUNDS; i++) {
		sched_yield();
		CHECK_EQ(own, me);
		CHECK_EQ(errno, me);
	}
	char name[16], got[16];
	snprintf(name, sizeof(name), "thread %d", me);
	CHECK_EQ(pthread_setname_np(pthread_self(), name), 0);
	CHECK_EQ(pthread_getname_np(pthread_self(), got, sizeof(got)), 0);
	CHECK(strcmp(name, got) == 0);
	return (void *)(intptr_t)(me * 2);
}

int main(void)
{
	pthread_t threads[THREADS];
	own = -1;
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(start, (void *)(intptr_t)i);
	for (int i = 0; i < THREADS; i++) {
		CHECK(!pthread_equal(threads[i], pthread_self()));
		CHECK_EQ((intptr_t)join_thread(threads[i]), i * 2);
	}
	CHECK_EQ(own, -1);
	return 0;
}
