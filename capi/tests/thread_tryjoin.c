/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * tryjoin answers EBUSY while the thread runs, then takes its result.
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
	CHECK_EQ(pthread_tryjoin_np(thread, NULL), EBUSY);
	sem_post(&gate);
	void *result = NULL;
	int error;
	long end = now_ms() + 40000;
	while ((error = pthread_tryjoin_np(thread, &result)) == EBUSY && now_ms() < end)
		sched_yield();
	CHECK_EQ(error, 0);
	CHECK_EQ((intptr_t)result, 7);
	return 0;
}
