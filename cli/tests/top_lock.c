/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A time-critical thread that waits for a mutex which a lazy thread holds while it sleeps.
 * Invariant: says "ready" when both are where they stay, and ends by itself. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *critical(void *argument)
{
	pthread_setname_np(pthread_self(), "critical");
	pthread_mutex_lock(&mutex);
	return argument;
}

static void *holder(void *argument)
{
	pthread_t thread;

	pthread_setname_np(pthread_self(), "holder");
	pthread_mutex_lock(&mutex);
	pthread_create(&thread, NULL, critical, NULL);
	sleep(1);
	puts("ready");
	fflush(stdout);
	sleep(60);
	return argument;
}

int main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, holder, NULL))
		return 1;
	sleep(60);
	return 0;
}
