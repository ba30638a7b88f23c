/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Threads that live at once each have a signal stack of their own, all of it writable, and a forked
 * child keeps the one that its thread had. Prints how many threads had one beside their stack. */
#define _GNU_SOURCE
#include "own_table.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define THREADS 40

static pthread_barrier_t all_there, all_written;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static volatile int apart, handled;

static stack_t current(void)
{
	stack_t now;

	CHECK_EQUAL(sigaltstack(NULL, &now), 0);
	return now;
}

static int is_apart(const stack_t *it)
{
	pthread_attr_t attributes;
	void *low;
	size_t size;

	CHECK_EQUAL(pthread_getattr_np(pthread_self(), &attributes), 0);
	CHECK_EQUAL(pthread_attr_getstack(&attributes, &low, &size), 0);
	CHECK_EQUAL(pthread_attr_destroy(&attributes), 0);
	return (size_t)((char *)it->ss_sp - (char *)low) >= size;
}

static void *start(void *number)
{
	const int mark = (int)(long)number + 1;
	const stack_t own = current();
	const int has_one = !(own.ss_flags & SS_DISABLE) && is_apart(&own);

	pthread_barrier_wait(&all_there);
	if (has_one)
		memset(own.ss_sp, mark, own.ss_size);
	pthread_barrier_wait(&all_written);
	for (size_t i = 0; has_one && i < own.ss_size; i++)
		CHECK_EQUAL(((char *)own.ss_sp)[i], mark);
	pthread_mutex_lock(&turn);
	apart += has_one;
	pthread_mutex_unlock(&turn);
	return NULL;
}

static void *nothing(void *argument) { return argument; }

static void on_signal(int number)
{
	const stack_t now = current();
	char here;

	CHECK_EQUAL(number, SIGUSR1);
	CHECK((size_t)(&here - (char *)now.ss_sp) < now.ss_size);
	handled++;
}

/* The table of the parent goes when the child makes its own: with its first thread. */
static void in_child(void)
{
	struct sigaction action = {.sa_flags = SA_ONSTACK, .sa_handler = on_signal};
	pthread_t thread;

	CHECK_EQUAL(pthread_create(&thread, NULL, nothing, NULL), 0);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQUAL(raise(SIGUSR1), 0);
	CHECK_EQUAL(handled, 1);
	exit(0);
}

static void *forks(void *argument)
{
	const stack_t own = current();
	pid_t child;

	/* Without one there is nothing to keep. */
	if (own.ss_flags & SS_DISABLE)
		return argument;
	child = fork();
	if (child == 0)
		in_child();
	wait_for_child(child);
	return argument;
}

int main(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&all_there, NULL, THREADS);
	pthread_barrier_init(&all_written, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, start, (void *)i), 0);
	for (long i = 0; i < THREADS; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	CHECK_EQUAL(pthread_create(&threads[0], NULL, forks, NULL), 0);
	CHECK_EQUAL(pthread_join(threads[0], NULL), 0);
	printf("%d apart\n", apart);
	return 0;
}
