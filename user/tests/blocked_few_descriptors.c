/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * More threads block in the kernel at once than the process may have descriptors; after that all
 * wait for a pipe, and the program still opens files.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LIMIT = 128, THREADS = 300, STACK_BYTES = 64 << 10 };

static sem_t shared;
static int arrived, reading, left, ends[2], never[2];

static void *one(void *arg)
{
	struct pollfd entries[2] = { { .fd = never[0], .events = POLLIN }, { .fd = -1 } };
	char byte;
	add_value(&arrived, 1);
	CHECK_EQ(sem_wait(&shared), 0);
	add_value(&reading, 1);
	CHECK_EQ(read(ends[0], &byte, 1), 1);
	CHECK_EQ(poll(entries, 2, 20), 0);
	add_value(&left, 1);
	return arg;
}

static void opens(void)
{
	for (int i = 0; i < 10; i++) {
		int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
		CHECK(file >= 0);
		CHECK_EQ(close(file), 0);
	}
}

int main(void)
{
	static char bytes[THREADS];
	struct rlimit limit;
	pthread_attr_t attributes;
	pthread_t threads[THREADS];

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < LIMIT)
		SKIP("RLIMIT_NOFILE is too low");
	limit.rlim_cur = limit.rlim_max = LIMIT;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	CHECK_EQ(sem_init(&shared, 1, 0), 0);
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(pipe(never), 0);
	CHECK_EQ(pthread_attr_init(&attributes), 0);
	CHECK_EQ(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], &attributes, one, NULL), 0);
	await_value(&arrived, THREADS);
	opens();
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(sem_post(&shared), 0);
	await_value(&reading, THREADS);
	opens();
	CHECK_EQ(write(ends[1], bytes, THREADS), THREADS);
	await_value(&left, THREADS);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	return 0;
}
