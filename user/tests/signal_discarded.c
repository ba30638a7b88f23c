/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What is pending of a signal that the program begins to ignore is discarded, for the process and
 * for all threads: it is not shown as pending, nobody takes it, and a handler that is set later
 * does not run. SIGCONT discards stop signals that are pending, and they discard it.
 */
#define _GNU_SOURCE
#include "check.h"
#include "pending.h"
#include <signal.h>
#include <sys/wait.h>

enum { MANY = 100 };

static sigset_t all;
static int handled, stage;

static void on_signal(int number)
{
	(void)number;
	handled++;
}

/* The signal that was taken, or -1. */
static int take(int number)
{
	sigset_t set;
	struct timespec at_once = { 0, 0 };
	sigemptyset(&set);
	sigaddset(&set, number);
	return sigtimedwait(&set, NULL, &at_once);
}

static void send(int number, int to_thread)
{
	CHECK_EQ(to_thread ? pthread_kill(pthread_self(), number) : kill(getpid(), number), 0);
}

/* One that is pending, and then set to `handler`. */
static void set_with_one(int number, int to_thread, void (*handler)(int), int stays)
{
	CHECK(signal(number, on_signal) != SIG_ERR);
	send(number, to_thread);
	CHECK(is_pending(number));
	struct sigaction action = { .sa_handler = handler };
	CHECK_EQ(sigaction(number, &action, NULL), 0);
	CHECK_EQ(is_pending(number), stays);
	CHECK(signal(number, on_signal) != SIG_ERR);
	CHECK_EQ(is_pending(number), stays);
	CHECK_EQ(take(number), stays ? number : -1);
	/* The next one comes. */
	send(number, to_thread);
	CHECK(is_pending(number));
	CHECK_EQ(take(number), number);
	CHECK_EQ(take(number), -1);
}

static void unblocks(int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	CHECK(signal(number, on_signal) != SIG_ERR);
	send(number, 1);
	CHECK(signal(number, SIG_IGN) != SIG_ERR);
	CHECK(signal(number, on_signal) != SIG_ERR);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	CHECK_EQ(handled, 0);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
}

/* Those that are queued, with their values; more in all than may be pending. */
static void queued(void)
{
	int number = SIGRTMIN + 3;
	for (int turn = 0; turn < MANY; turn++) {
		CHECK(signal(number, on_signal) != SIG_ERR);
		for (int index = 0; index < MANY; index++) {
			union sigval value = { .sival_int = turn };
			CHECK_EQ(pthread_sigqueue(pthread_self(), number, value), 0);
		}
		CHECK(signal(number, SIG_IGN) != SIG_ERR);
		CHECK(!is_pending(number));
	}
	CHECK_EQ(take(number), -1);
}

static void stops(void)
{
	CHECK(signal(SIGCONT, on_signal) != SIG_ERR);
	for (int to_thread = 0; to_thread < 2; to_thread++) {
		CHECK_EQ(raise(SIGTSTP), 0);
		CHECK(is_pending(SIGTSTP));
		send(SIGCONT, to_thread);
		CHECK(!is_pending(SIGTSTP));
		CHECK(is_pending(SIGCONT));
		send(SIGTTIN, to_thread);
		CHECK(is_pending(SIGTTIN));
		CHECK(!is_pending(SIGCONT));
		CHECK_EQ(raise(SIGCONT), 0);
		CHECK(!is_pending(SIGTTIN));
		CHECK_EQ(take(SIGCONT), SIGCONT);
	}
}

/* system() ignores it, too. */
static void shell(void)
{
	CHECK(signal(SIGINT, on_signal) != SIG_ERR);
	send(SIGINT, 1);
	CHECK_EQ(system(":"), 0);
	CHECK(!is_pending(SIGINT));
	CHECK_EQ(take(SIGINT), -1);
}

/* A child has actions of its own, and nothing of its parent's. */
static void children(void)
{
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
	send(SIGUSR1, 1);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
		_exit(0);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(take(SIGUSR1), SIGUSR1);
	send(SIGUSR1, 1);
	child = vfork();
	if (child == 0) {
		signal(SIGUSR1, SIG_IGN);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(take(SIGUSR1), SIGUSR1);
}

static void *other(void *arg)
{
	set_value(&stage, 1);
	await_value(&stage, 2);
	CHECK(is_pending(SIGUSR2));
	set_value(&stage, 3);
	await_value(&stage, 4);
	CHECK(!is_pending(SIGUSR2));
	CHECK_EQ(take(SIGUSR2), -1);
	return arg;
}

/* Of another thread. */
static void of_other(void)
{
	pthread_t thread;
	CHECK(signal(SIGUSR2, on_signal) != SIG_ERR);
	CHECK_EQ(pthread_create(&thread, NULL, other, NULL), 0);
	await_value(&stage, 1);
	CHECK_EQ(pthread_kill(thread, SIGUSR2), 0);
	set_value(&stage, 2);
	await_value(&stage, 3);
	CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
	CHECK(signal(SIGUSR2, on_signal) != SIG_ERR);
	set_value(&stage, 4);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void *body(void *arg)
{
	int by_default[] = { SIGCHLD, SIGWINCH, SIGCONT };
	int others[] = { SIGUSR1, SIGINT, SIGRTMIN + 1 };
	for (int to_thread = 0; to_thread < 2; to_thread++)
		for (int index = 0; index < 3; index++) {
			set_with_one(by_default[index], to_thread, SIG_IGN, 0);
			set_with_one(by_default[index], to_thread, SIG_DFL, 0);
			set_with_one(others[index], to_thread, SIG_IGN, 0);
			set_with_one(others[index], to_thread, SIG_DFL, 1);
		}
	/* SIGURG preempts threads: for the process it is never pending. */
	set_with_one(SIGURG, 1, SIG_IGN, 0);
	set_with_one(SIGURG, 1, SIG_DFL, 0);
	set_with_one(SIGPIPE, 1, SIG_IGN, 0);
	set_with_one(SIGPIPE, 1, SIG_DFL, 1);
	unblocks(SIGUSR1);
	queued();
	stops();
	shell();
	children();
	of_other();
	CHECK_EQ(handled, 0);
	return arg;
}

int main(void)
{
	sigfillset(&all);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, body, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return 0;
}
