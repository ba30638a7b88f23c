/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * timedjoin answers ETIMEDOUT at its moment, not before, and the thread stays joinable.
 */
#define _GNU_SOURCE
#include "check.h"

static sem_t gate;

static void *wait_at_gate(void *arg)
{
	sem_wait(&gate);
	return arg;
}

int main(void)
{
	CHECK_EQ(sem_init(&gate, 0, 0), 0);
	pthread_t thread = start_thread(wait_at_gate, (void *)7);
	long start = now_ms();
	struct timespec at = moment(CLOCK_REALTIME, 30);
	CHECK_EQ(pthread_timedjoin_np(thread, NULL, &at), ETIMEDOUT);
	CHECK(now_ms() - start >= 28);
	at = moment(CLOCK_REALTIME, -1000);
	CHECK_EQ(pthread_timedjoin_np(thread, NULL, &at), ETIMEDOUT);
	at = moment(CLOCK_REALTIME, 40000);
	at.tv_nsec = 1000000000;
	/* glibc 2.36 waits forever. */
	if (ON_HEDDLE)
		CHECK_EQ(pthread_timedjoin_np(thread, NULL, &at), EINVAL);
	sem_post(&gate);
	at = moment(CLOCK_REALTIME, 40000);
	void *result = NULL;
	CHECK_EQ(pthread_timedjoin_np(thread, &result, &at), 0);
	CHECK_EQ((intptr_t)result, 7);
	return 0;
}
