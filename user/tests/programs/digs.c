/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A user-level thread that uses its stack, for tests of the tripwire and of overflows.
 *
 *     digs deep BYTES [SIZE]   so deep, on a stack of SIZE bytes if that is given
 *     digs bounds BYTES [SIZE] the same, and it says first what its stack is: size and guard
 *                              together, whether its lowest byte and the one below can be read,
 *                              whether the thread is on it
 *     digs edge                as deep as the border, until another thread has run for a while
 *     digs fork BYTES          it forks, and the child goes so deep
 *     digs many BYTES          a hundred such threads one after the other, half of them so deep
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long bytes;
static atomic_int is_over;

/* By pieces that no guard page can be stepped over with. */
__attribute__((noinline)) int digs_deep(long left)
{
	volatile char piece[512];

	memset((char *)piece, 1, sizeof(piece));
	return left > 0 ? digs_deep(left - (long)sizeof(piece)) + piece[0] : piece[0];
}

void *deep(void *argument)
{
	pthread_setname_np(pthread_self(), "digger/1");
	digs_deep(argument ? 1 : bytes);
	return argument;
}

/* Whether a byte can be read, by the kernel's word. */
static int is_there(const char *byte)
{
	int ends[2], is_read;

	if (pipe(ends) != 0)
		return -1;
	is_read = write(ends[1], byte, 1) == 1;
	close(ends[0]);
	close(ends[1]);
	return is_read;
}

void *bounds(void *argument)
{
	pthread_attr_t attributes;
	size_t size, guard;
	void *low;

	pthread_setname_np(pthread_self(), "digger/2");
	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &low, &size);
	pthread_attr_getguardsize(&attributes, &guard);
	pthread_attr_destroy(&attributes);
	printf("%zu %d %d %d\n", size + guard, is_there(low), is_there((char *)low - 1),
	       (char *)&size > (char *)low && (char *)&size < (char *)low + size && guard > 0);
	fflush(stdout);
	digs_deep(bytes);
	return argument;
}

static void *forks(void *argument)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		digs_deep(bytes);
		_exit(3);
	}
	waitpid(child, &status, 0);
	printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
	return argument;
}

/* Runs only when the other one is preempted, as there is one worker. */
static void *other(void *argument)
{
	struct timespec now, begun;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < 200);
	is_over = 1;
	return argument;
}

/* Nothing is below the stack pointer, which is just above the closed page, but what a signal puts
 * there. */
void *edge(void *argument)
{
	pthread_attr_t attributes;
	pthread_t beside;
	uintptr_t border, here = (uintptr_t)__builtin_frame_address(0);
	size_t size;
	void *low;
	char *room;

	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &low, &size);
	pthread_attr_destroy(&attributes);
	pthread_create(&beside, NULL, other, NULL);
	border = here - (here - (uintptr_t)low) / 100 * 75;
	here = (uintptr_t)alloca(16);
	room = alloca(here - ((border & ~4095ul) + 4096) - 64);
	__asm__ volatile("" : : "r"(room) : "memory");
	while (!is_over)
		;
	pthread_join(beside, NULL);
	return argument;
}

static void run(void *(*start)(void *), void *argument, size_t size)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	if (size)
		pthread_attr_setstacksize(&attributes, size);
	pthread_create(&thread, &attributes, start, argument);
	pthread_join(thread, NULL);
}

int main(int count, char **words)
{
	const char *mode = count > 1 ? words[1] : "";

	bytes = count > 2 ? atol(words[2]) : 0;
	if (strcmp(mode, "deep") == 0) {
		run(deep, NULL, count > 3 ? (size_t)atol(words[3]) : 0);
	} else if (strcmp(mode, "bounds") == 0) {
		run(bounds, NULL, count > 3 ? (size_t)atol(words[3]) : 0);
	} else if (strcmp(mode, "fork") == 0) {
		run(forks, NULL, 0);
	} else if (strcmp(mode, "many") == 0) {
		for (long i = 0; i < 100; i++)
			run(deep, i % 2 ? &bytes : NULL, 0);
	} else {
		run(edge, NULL, 0);
	}
	puts("goes on");
	return 0;
}
