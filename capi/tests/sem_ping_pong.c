/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Two threads, and a thread with main, alternate through two semaphores.
 */
#define _GNU_SOURCE
#include "check.h"

static sem_t ping, pong;

static void *answers(void *arg)
{
	for (int i = 0; i < 1000; i++) {
		CHECK_EQ(sem_wait(&ping), 0);
		CHECK_EQ(sem_post(&pong), 0);
	}
	return arg;
}

static void *asks(void *arg)
{
	for (int i = 0; i < 1000; i++) {
		CHECK_EQ(sem_post(&ping), 0);
		CHECK_EQ(sem_wait(&pong), 0);
	}
	return arg;
}

int main(void)
{
	CHECK_EQ(sem_init(&ping, 0, 0), 0);
	CHECK_EQ(sem_init(&pong, 0, 0), 0);
	pthread_t a = start_thread(answers, NULL), b = start_thread(asks, NULL);
	join_thread(a);
	join_thread(b);
	a = start_thread(answers, NULL);
	asks(NULL);
	join_thread(a);
	return 0;
}
