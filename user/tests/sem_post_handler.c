/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * sem_post in a signal handler, whatever the handler has interrupted: no post is lost, and nothing
 * waits for itself. The main thread wakes and waits for others all the time, so a timer's signal
 * often comes in the middle of that; its handler lets threads go on by the same kinds of objects.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/time.h>

enum { THREADS = 6, SEMS = 5, ROUNDS = 20000 };
static sem_t posted[SEMS], turns[THREADS], answer;
static int handled, taken[SEMS], stop[SEMS];
static int pipe_ends[2];

static void on_alarm(int number)
{
	(void)number;
	int saved = errno;
	handled++;
	for (int i = 0; i < SEMS; i++)
		CHECK_EQ(sem_post(&posted[i]), 0);
	CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
	char byte;
	CHECK_EQ(read(pipe_ends[0], &byte, 1), 1);
	errno = saved;
}

static void *takes(void *arg)
{
	sem_t *from = arg;
	for (;;) {
		while (sem_wait(from) != 0)
			CHECK_EQ(errno, EINTR);
		if (__atomic_load_n(&stop[from - posted], __ATOMIC_SEQ_CST))
			return NULL;
		taken[from - posted]++;
	}
}

static void *answers(void *arg)
{
	for (int i = 0; i < ROUNDS / THREADS; i++) {
		while (sem_wait(arg) != 0)
			CHECK_EQ(errno, EINTR);
		sem_post(&answer);
	}
	return NULL;
}

static void beat(long us)
{
	struct itimerval often = { { 0, us }, { 0, us } };
	CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
}

int main(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
	CHECK_EQ(pipe(pipe_ends), 0);
	CHECK_EQ(sem_init(&answer, 0, 0), 0);
	/* Only the main thread takes the signal. */
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	pthread_t takers[SEMS], threads[THREADS];
	for (int i = 0; i < SEMS; i++) {
		CHECK_EQ(sem_init(&posted[i], 0, 0), 0);
		takers[i] = start_thread(takes, &posted[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		CHECK_EQ(sem_init(&turns[i], 0, 0), 0);
		threads[i] = start_thread(answers, &turns[i]);
	}
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	beat(150);
	for (int i = 0; i < ROUNDS / THREADS * THREADS; i++) {
		CHECK_EQ(sem_post(&turns[i % THREADS]), 0);
		if (i % THREADS == THREADS - 1)
			for (int k = 0; k < THREADS; k++)
				while (sem_wait(&answer) != 0)
					CHECK_EQ(errno, EINTR);
	}
	beat(0);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	CHECK(handled > 0);
	for (int i = 0; i < SEMS; i++) {
		await_value(&taken[i], handled);
		set_value(&stop[i], 1);
		CHECK_EQ(sem_post(&posted[i]), 0);
		join_thread(takers[i]);
	}
	return 0;
}
