/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that each wait in another way, and one that computes: what a debugger is to find. It
 * says so when all are there, and ends when its input does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t nothing;
static int silent[2];
static pthread_t sleeper;
static volatile unsigned long turns;
static int here;

static void is_here(const char *name)
{
	pthread_setname_np(pthread_self(), name);
	__atomic_add_fetch(&here, 1, __ATOMIC_SEQ_CST);
}

__attribute__((noinline)) static void deep_lock(int depth)
{
	if (depth)
		deep_lock(depth - 1);
	else
		pthread_mutex_lock(&held);
	__asm__ volatile("" ::: "memory");
}

static void *locks(void *arg)
{
	is_here("locker");
	deep_lock(5);
	return arg;
}

static void *reads(void *arg)
{
	char byte;
	is_here("reader");
	return read(silent[0], &byte, 1) < 0 ? NULL : arg;
}

static void *sleeps(void *arg)
{
	is_here("sleeper");
	sleep(1000);
	return arg;
}

static void *joins(void *arg)
{
	is_here("joiner");
	pthread_join(sleeper, NULL);
	return arg;
}

static void *waits(void *arg)
{
	static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	is_here("condition");
	pthread_mutex_lock(&own);
	pthread_cond_wait(&never, &own);
	return arg;
}

static void *counts_down(void *arg)
{
	is_here("semaphore");
	sem_wait(&nothing);
	return arg;
}

static void *computes(void *arg)
{
	is_here("computer");
	for (;;)
		turns++;
	return arg;
}

int main(void)
{
	void *(*const starts[])(void *) = {reads, locks, joins, waits, counts_down, computes};
	enum { STARTS = sizeof(starts) / sizeof(starts[0]) };
	pthread_t thread;
	char byte;

	sem_init(&nothing, 0, 0);
	if (pipe(silent) || pthread_mutex_lock(&held))
		return 1;
	if (pthread_create(&sleeper, NULL, sleeps, NULL))
		return 1;
	for (unsigned i = 0; i < STARTS; i++)
		if (pthread_create(&thread, NULL, starts[i], NULL))
			return 1;
	while (!turns || __atomic_load_n(&here, __ATOMIC_SEQ_CST) < 1 + (int)STARTS)
		usleep(1000);
	/* It can't be seen that they wait. */
	usleep(300000);
	printf("%d\n", getpid());
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	_exit(0);
}
