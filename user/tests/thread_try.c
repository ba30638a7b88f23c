/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Who tries to join a thread that runs is told so, whatever the thread: detached, or the caller.
 * A mutex that was destroyed is none.
 */
#define _GNU_SOURCE
#include "check.h"

static int is_over;

static void *runs(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST))
		sleep_ms(1);
	return arg;
}

static void tries(void)
{
	void *result;
	pthread_t detached = start_thread(runs, NULL), joinable = start_thread(runs, NULL);
	CHECK_EQ(pthread_detach(detached), 0);
	CHECK_EQ(pthread_tryjoin_np(detached, &result), EBUSY);
	CHECK_EQ(pthread_tryjoin_np(joinable, &result), EBUSY);
	CHECK_EQ(pthread_tryjoin_np(pthread_self(), &result), EBUSY);
	__atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
	join_thread(joinable);
	__atomic_store_n(&is_over, 0, __ATOMIC_SEQ_CST);
}

static void destroyed(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct timespec past = { 1, 0 };
	CHECK_EQ(pthread_mutex_destroy(&mutex), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), EINVAL);
	CHECK_EQ(pthread_mutex_trylock(&mutex), EINVAL);
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &past), EINVAL);
	CHECK_EQ(pthread_mutex_unlock(&mutex), EINVAL);
}

static void *does_all(void *arg)
{
	tries();
	destroyed();
	return arg;
}

int main(void)
{
	does_all(NULL);
	join_thread(start_thread(does_all, NULL));
	return 0;
}
