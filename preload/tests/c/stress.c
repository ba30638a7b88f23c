/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Threads that create threads, some of them detached, with names, while others fork; and the
 * process ends while threads come and go. */
#define _GNU_SOURCE
#include "own_table.h"
#include <pthread.h>
#include <sys/wait.h>

#define CREATORS 4
#define EACH 600

static uint32_t running;

static void *short_lived(void *number)
{
	char name[16];

	snprintf(name, sizeof(name), "short %ld", (long)number % 100);
	pthread_setname_np(pthread_self(), name);
	(void)use_stack(100 + (size_t)number * 37 % 30000);
	__atomic_fetch_sub(&running, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void *child_thread(void *argument) { return argument; }

static void forks(void)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		pthread_t thread;
		char path[64];

		CHECK_EQUAL(pthread_create(&thread, NULL, child_thread, NULL), 0);
		CHECK_EQUAL(pthread_join(thread, NULL), 0);
		snprintf(path, sizeof(path), "/dev/shm/heddle.%d", getpid());
		unlink(path);
		_exit(0);
	}
	CHECK(child > 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *creates(void *argument)
{
	pthread_attr_t detached;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&detached, 256 << 10);
	for (long i = 0; i < EACH; i++) {
		pthread_t thread;

		__atomic_fetch_add(&running, 1, __ATOMIC_RELAXED);
		CHECK_EQUAL(pthread_create(&thread, i % 2 ? &detached : NULL, short_lived,
					   (void *)i), 0);
		if (i % 2 == 0)
			CHECK_EQUAL(pthread_join(thread, NULL), 0);
		if (i % 200 == 50)
			forks();
	}
	return argument;
}

int main(void)
{
	pthread_t threads[CREATORS];

	for (int i = 0; i < CREATORS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, creates, NULL), 0);
	for (int i = 0; i < CREATORS; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	/* Some of the detached ones may be about to end. */
	return 0;
}
