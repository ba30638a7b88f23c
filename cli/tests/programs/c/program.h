/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the programs of this folder share.
 *
 * A program does one thing that is hard on a library loaded into it, checks what it can by
 * itself, prints what must be the same with and without that library, and ends with status 0.
 * Nothing in its output may depend on time, addresses or process ids.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition)                                                                           \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,        \
				strerror(errno));                                                 \
			_exit(99);                                                                \
		}                                                                                 \
	} while (0)

/* Calls of pthread functions return their error. */
#define GOOD(call)                                                                                \
	do {                                                                                      \
		errno = call;                                                                     \
		MUST(errno == 0 && #call);                                                        \
	} while (0)

__attribute__((unused)) static pthread_t start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	GOOD(pthread_create(&thread, NULL, run, arg));
	return thread;
}

__attribute__((unused)) static void *join(pthread_t thread)
{
	void *result = NULL;

	GOOD(pthread_join(thread, &result));
	return result;
}

/* Uses some stack and gives back twice its argument. */
__attribute__((unused, noinline)) static void *twice(void *arg)
{
	volatile char used[4096];

	for (size_t at = 0; at < sizeof(used); at += 64)
		used[at] = 1;
	return (void *)((uintptr_t)arg * 2 + used[64] - 1);
}

/* Some threads, joined; the sum of what they gave back. */
__attribute__((unused)) static unsigned long threads(int count)
{
	pthread_t all[256];
	unsigned long sum = 0;

	MUST(count <= 256);
	for (int at = 0; at < count; at++)
		all[at] = start(twice, (void *)(uintptr_t)at);
	for (int at = 0; at < count; at++)
		sum += (uintptr_t)join(all[at]);
	return sum;
}

/* The exit status of a child, 1000 + signal if it died of one. */
__attribute__((unused)) static int ending(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0)
		MUST(errno == EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

__attribute__((unused)) static void sleep_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

__attribute__((unused)) static void say(const char *text)
{
	printf("%s\n", text);
	fflush(stdout);
}

__attribute__((unused)) static void say_number(const char *text, long number)
{
	printf("%s %ld\n", text, number);
	fflush(stdout);
}

#endif
