/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * join is a cancellation point, and the thread that it waited for stays joinable.
 */
#define _GNU_SOURCE
#include "check.h"

static sem_t gate;

static void *wait_at_gate(void *arg)
{
	sem_wait(&gate);
	return arg;
}

static void *joins(void *arg)
{
	pthread_join(*(pthread_t *)arg, NULL);
	return NULL;
}

int main(void)
{
	sem_init(&gate, 0, 0);
	pthread_t target = start_thread(wait_at_gate, (void *)5);
	pthread_t joiner = start_thread(joins, &target);
	sleep_ms(10);
	CHECK_EQ(pthread_cancel(joiner), 0);
	CHECK(join_thread(joiner) == PTHREAD_CANCELED);
	sem_post(&gate);
	CHECK_EQ((intptr_t)join_thread(target), 5);
	return 0;
}
