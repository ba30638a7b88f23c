/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program that closes all descriptors that it can have, whether it has opened them or not, or
 * puts its own at all numbers, goes on: its threads wait as before.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>

enum { FIRST = 3, NUMBERS = 1024, THREADS = 4, WAIT_MS = 5 };

static void by_loop(void)
{
	for (int fd = FIRST; fd < NUMBERS; fd++)
		CHECK(close(fd) == 0 || errno == EBADF);
}

static void by_range(void)
{
	CHECK_EQ(close_range(FIRST, NUMBERS / 2, 0), 0);
	CHECK_EQ(close_range(NUMBERS / 2 + 1, ~0u, 0), 0);
	CHECK_ERRNO(close_range(2, 1, 0), EINVAL);
}

static void by_closefrom(void)
{
	closefrom(FIRST);
}

static void by_copies(void)
{
	by_loop();
	int null = open("/dev/null", O_RDONLY);
	CHECK_EQ(null, FIRST);
	for (int fd = FIRST + 1; fd < NUMBERS; fd++)
		CHECK(dup2(null, fd) == fd || errno == EBADF);
	for (int fd = FIRST + 1; fd < NUMBERS; fd++)
		CHECK(dup3(null, fd, O_CLOEXEC) == fd || errno == EBADF);
	by_loop();
}

static void (*const WAYS[])(void) = { by_loop, by_range, by_closefrom, by_copies };
enum { COUNT = sizeof WAYS / sizeof *WAYS };

static int ends[THREADS][2];
static sem_t polled;

static void *waits(void *index)
{
	const int *own = ends[(intptr_t)index];
	struct pollfd entry = { own[0], POLLIN, 0 };
	char byte;

	CHECK_EQ(poll(&entry, 1, WAIT_MS), 0);
	CHECK_EQ(sem_post(&polled), 0);
	CHECK_EQ(read(own[0], &byte, 1), 1);
	sleep_ms(WAIT_MS);
	return NULL;
}

static void wait_together(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		CHECK_EQ(pipe(ends[i]), 0);
		CHECK_EQ(ends[i][0], FIRST + 2 * i);
		CHECK_EQ(pthread_create(&threads[i], NULL, waits, (void *)(intptr_t)i), 0);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(sem_wait(&polled), 0);
	sleep_ms(WAIT_MS);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(write(ends[i][1], "x", 1), 1);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void *close_all(void *way)
{
	WAYS[(intptr_t)way]();
	return NULL;
}

int main(void)
{
	pthread_t thread;

	closefrom(FIRST);
	CHECK_EQ(sem_init(&polled, 0, 0), 0);
	for (intptr_t way = 0; way < COUNT; way++) {
		wait_together();
		WAYS[way]();
		wait_together();
		CHECK_EQ(pthread_create(&thread, NULL, close_all, (void *)way), 0);
		CHECK_EQ(pthread_join(thread, NULL), 0);
	}
	wait_together();
	return 0;
}
