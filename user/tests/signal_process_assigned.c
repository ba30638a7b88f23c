/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A signal that a thread sends to its process is another thread's when kill returns: that one
 * handles it before it goes on, and before it ends. The sender and the main thread block it.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>

enum { ROUNDS = 500 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waits, over, handled, is_done;

static void handler(int signal)
{
	(void)signal;
	add_value(&handled, 1);
}

static void block(int how)
{
	sigset_t set;

	CHECK_EQ(sigemptyset(&set), 0);
	CHECK_EQ(sigaddset(&set, SIGUSR1), 0);
	CHECK_EQ(pthread_sigmask(how, &set, NULL), 0);
}

static void *takes(void *arg)
{
	block(SIG_UNBLOCK);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	for (add_value(&waits, 1); !add_value(&over, 0);)
		CHECK_EQ(pthread_cond_wait(&cond, &mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return arg;
}

/* Has it look at any moment. */
static void *wakes(void *arg)
{
	while (!add_value(&is_done, 0)) {
		struct timespec moment = { 0, 700 };

		CHECK_EQ(pthread_cond_signal(&cond), 0);
		nanosleep(&moment, NULL);
	}
	return arg;
}

static void *sends(void *by_queue)
{
	while (!add_value(&waits, 0))
		sched_yield();
	if (by_queue)
		CHECK_EQ(sigqueue(getpid(), SIGUSR1, (union sigval){ 0 }), 0);
	else
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	add_value(&over, 1);
	return by_queue;
}

int main(void)
{
	struct sigaction action = { .sa_handler = handler };

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	block(SIG_BLOCK);
	pthread_t waker = start_thread(wakes, NULL);
	for (int round = 1; round <= ROUNDS; round++) {
		void *by_queue = round % 2 ? NULL : &mutex;

		waits = over = 0;
		pthread_t taker = start_thread(takes, NULL);
		/* Every fifth the main thread sends. */
		if (round % 5 == 0)
			sends(by_queue);
		else
			CHECK(join_thread(start_thread(sends, by_queue)) == by_queue);
		join_thread(taker);
		CHECK_EQ(add_value(&handled, 0), round);
	}
	add_value(&is_done, 1);
	join_thread(waker);
	return 0;
}
