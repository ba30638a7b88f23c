/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * clockjoin waits by the named clock and refuses clocks that cannot be waited on.
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
	struct timespec at = moment(CLOCK_MONOTONIC, 20);
	long start = now_ms();
	CHECK_EQ(pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &at), ETIMEDOUT);
	CHECK(now_ms() - start >= 18);
	CHECK_EQ(pthread_clockjoin_np(thread, NULL, CLOCK_PROCESS_CPUTIME_ID, &at), EINVAL);
	sem_post(&gate);
	at = moment(CLOCK_MONOTONIC, 40000);
	void *result = NULL;
	CHECK_EQ(pthread_clockjoin_np(thread, &result, CLOCK_MONOTONIC, &at), 0);
	CHECK_EQ((intptr_t)result, 7);
	return 0;
}
