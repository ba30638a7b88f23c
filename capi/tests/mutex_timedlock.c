/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A timed lock waits until its moment; the moment does not matter when the mutex is free, unless
 * it is needed.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int held, let_go;

static void *holds(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	set_value(&held, 1);
	await_value(&let_go, 1);
	sleep_ms(10);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return arg;
}

int main(void)
{
	struct timespec at = moment(CLOCK_REALTIME, -1000);
	/* Free: taken at once, even in the past. */
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &at), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	pthread_t thread = start_thread(holds, NULL);
	await_value(&held, 1);
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &at), ETIMEDOUT);
	at = moment(CLOCK_REALTIME, 20);
	long start = now_ms();
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &at), ETIMEDOUT);
	CHECK(now_ms() - start >= 18);
	at.tv_nsec = 1000000000;
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &at), EINVAL);
	at.tv_nsec = -1;
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &at), EINVAL);
	set_value(&let_go, 1);
	at = moment(CLOCK_REALTIME, 40000);
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &at), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	join_thread(thread);
	return 0;
}
