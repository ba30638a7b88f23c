/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that spins for a lock handles its signals, those to the process too, and may end in a
 * handler; the lock is as it was.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>

static pthread_spinlock_t lock;
static int spins, handled;

static void handler(int signal)
{
	add_value(&handled, 1);
	if (signal == SIGUSR2)
		pthread_exit(&handled);
}

static void *takes(void *arg)
{
	sigset_t none;

	CHECK_EQ(sigemptyset(&none), 0);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &none, NULL), 0);
	add_value(&spins, 1);
	CHECK_EQ(pthread_spin_lock(&lock), 0);
	CHECK_EQ(pthread_spin_unlock(&lock), 0);
	return arg;
}

int main(void)
{
	struct sigaction action = { .sa_handler = handler };
	sigset_t both;

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
	CHECK_EQ(sigemptyset(&both), 0);
	CHECK_EQ(sigaddset(&both, SIGUSR1), 0);
	CHECK_EQ(sigaddset(&both, SIGUSR2), 0);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &both, NULL), 0);
	CHECK_EQ(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE), 0);
	CHECK_EQ(pthread_spin_lock(&lock), 0);

	pthread_t thread = start_thread(takes, NULL);
	await_value(&spins, 1);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	await_value(&handled, 1);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	await_value(&handled, 2);
	CHECK_EQ(pthread_kill(thread, SIGUSR2), 0);
	CHECK(join_thread(thread) == &handled);

	thread = start_thread(takes, &handled);
	await_value(&spins, 2);
	CHECK_EQ(pthread_spin_unlock(&lock), 0);
	CHECK(join_thread(thread) == &handled);
	CHECK_EQ(pthread_spin_trylock(&lock), 0);
	return 0;
}
