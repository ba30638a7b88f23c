/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads on stacks of the program's own, all of which a collector stops, as SBCL does: each posts
 * a semaphore in its handler and waits there until it may go on, wherever it was interrupted, as
 * in a contended mutex. With no other threads, then with some beside them; by a handler that was
 * set before the first thread, and by one that was set later.
 */
#define _GNU_SOURCE
#include "check.h"
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>

enum { THREADS = 8, ROUNDS = 20, STOPS = 5, STACK = 1 << 18 };

static sem_t stopped, resumed[THREADS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread int number;
static int running, over;
static char *stacks[THREADS];

static void on_stop(int signal)
{
	const int error = errno;

	(void)signal;
	sem_post(&stopped);
	while (sem_wait(&resumed[number]) != 0)
		CHECK_EQ(errno, EINTR);
	errno = error;
}

static void *works(void *arg)
{
	number = (int)(intptr_t)arg;
	add_value(&running, 1);
	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
		for (volatile int i = 0; i < 200; i++)
			;
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	}
	return NULL;
}

static void stop_all(const pthread_t *threads, int signal)
{
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_kill(threads[i], signal), 0);
	for (int i = 0; i < THREADS; i++)
		while (sem_wait(&stopped) != 0)
			CHECK_EQ(errno, EINTR);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(sem_post(&resumed[i]), 0);
}

static void collect(int signal)
{
	pthread_t threads[THREADS];
	pthread_attr_t attr;

	set_value(&running, 0);
	set_value(&over, 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK_EQ(pthread_attr_init(&attr), 0);
		CHECK_EQ(pthread_attr_setstack(&attr, stacks[i], STACK), 0);
		CHECK_EQ(pthread_create(&threads[i], &attr, works, (void *)(intptr_t)i), 0);
		CHECK_EQ(pthread_attr_destroy(&attr), 0);
	}
	await_value(&running, THREADS);
	for (int i = 0; i < STOPS; i++)
		stop_all(threads, signal);
	set_value(&over, 1);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
}

static void handle(int signal)
{
	struct sigaction action = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
	struct sigaction told;

	CHECK_EQ(sigaction(signal, &action, NULL), 0);
	CHECK_EQ(sigaction(signal, NULL, &told), 0);
	CHECK(told.sa_handler == on_stop);
	CHECK_EQ(told.sa_flags & (SA_RESTART | SA_SIGINFO | SA_RESETHAND), SA_RESTART);
}

static void *beside(void *arg)
{
	while (!__atomic_load_n((int *)arg, __ATOMIC_SEQ_CST)) {
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
		sched_yield();
	}
	return NULL;
}

int main(void)
{
	static int is_done;
	struct sigaction told;

	CHECK_EQ(sem_init(&stopped, 0, 0), 0);
	for (int i = 0; i < THREADS; i++) {
		stacks[i] = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
		CHECK(stacks[i] != MAP_FAILED);
		CHECK_EQ(sem_init(&resumed[i], 0, 0), 0);
	}
	handle(SIGUSR2);
	for (int round = 0; round < ROUNDS; round++)
		collect(SIGUSR2);
	handle(SIGUSR1);
	for (int round = 0; round < ROUNDS; round++)
		collect(SIGUSR1);
	pthread_t other = start_thread(beside, &is_done);
	for (int round = 0; round < ROUNDS; round++)
		collect(round % 2 ? SIGUSR1 : SIGUSR2);
	set_value(&is_done, 1);
	join_thread(other);
	CHECK_EQ(sigaction(SIGUSR2, NULL, &told), 0);
	CHECK(told.sa_handler == on_stop);
	return 0;
}
