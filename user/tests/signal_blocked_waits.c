/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A signal that a thread blocks does not come to it: a wait of its goes on, and ends when its time
 * is over. It comes when the thread unblocks it, at whatever moment of that it was sent.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <stdatomic.h>

enum { ROUNDS = 2000 };

static sem_t inside;
static _Atomic int handled, round_of_sender, round_of_taker;

static void handler(int signal)
{
	(void)signal;
	handled++;
}

static void change(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_EQ(pthread_sigmask(how, &set, NULL), 0);
}

static void *waits(void *arg)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec until;

	change(SIG_BLOCK);
	CHECK_EQ(clock_gettime(CLOCK_REALTIME, &until), 0);
	until.tv_sec++;
	CHECK_EQ(sem_post(&inside), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_cond_timedwait(&cond, &mutex, &until), ETIMEDOUT);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(handled, 0);
	change(SIG_UNBLOCK);
	CHECK_EQ(handled, 1);
	return arg;
}

/* The signal of each round is sent while the thread unblocks it, and has come when it is blocked
 * again; or, sent later, in the next round. None is lost. */
static void *takes(void *arg)
{
	for (int i = 1; i <= ROUNDS; i++) {
		round_of_taker = i;
		change(SIG_UNBLOCK);
		while (round_of_sender < i)
			sched_yield();
		while (handled < i)
			sched_yield();
		change(SIG_BLOCK);
	}
	return arg;
}

int main(void)
{
	pthread_t thread;

	CHECK(signal(SIGUSR1, handler) != SIG_ERR);
	CHECK_EQ(sem_init(&inside, 0, 0), 0);
	thread = start_thread(waits, NULL);
	CHECK_EQ(sem_wait(&inside), 0);
	sleep_ms(100);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	join_thread(thread);

	handled = 0;
	change(SIG_BLOCK);
	thread = start_thread(takes, NULL);
	for (int i = 1; i <= ROUNDS; i++) {
		while (round_of_taker < i)
			sched_yield();
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		round_of_sender = i;
	}
	join_thread(thread);
	CHECK_EQ(handled, ROUNDS);
	return 0;
}
