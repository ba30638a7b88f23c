/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A timed wait ends at its moment with ETIMEDOUT and the mutex held; a malformed moment is
 * EINVAL.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int flag;

static void *signals(void *arg)
{
	sleep_ms(10);
	pthread_mutex_lock(&mutex);
	flag = 1;
	CHECK_EQ(pthread_cond_signal(&cond), 0);
	pthread_mutex_unlock(&mutex);
	return arg;
}

int main(void)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	struct timespec at = moment(CLOCK_REALTIME, 20);
	long start = now_ms();
	int error;
	while ((error = pthread_cond_timedwait(&cond, &mutex, &at)) == 0)
		continue;
	CHECK_EQ(error, ETIMEDOUT);
	CHECK(now_ms() - start >= 18);
	CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
	at = moment(CLOCK_REALTIME, -1000);
	CHECK_EQ(pthread_cond_timedwait(&cond, &mutex, &at), ETIMEDOUT);
	at.tv_nsec = 1000000000;
	CHECK_EQ(pthread_cond_timedwait(&cond, &mutex, &at), EINVAL);
	at.tv_nsec = -1;
	CHECK_EQ(pthread_cond_timedwait(&cond, &mutex, &at), EINVAL);
	CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
	pthread_t thread = start_thread(signals, NULL);
	at = moment(CLOCK_REALTIME, 40000);
	while (!flag)
		CHECK_EQ(pthread_cond_timedwait(&cond, &mutex, &at), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	join_thread(thread);
	return 0;
}
