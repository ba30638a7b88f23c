/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A handler that switches to another context is gone on with by another thread: what it interrupted
 * goes on there, with the mask that its frame has, and the first thread keeps its own.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <ucontext.h>

enum { ROUNDS = 20, STACK_BYTES = 256 << 10 };

static ucontext_t of_first, of_second, in_handler, coroutine;
static int turn, started;
static char stack[STACK_BYTES];
static pthread_t second_thread;

__attribute__((noinline)) static int blocks(int number)
{
	sigset_t now;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, number);
}

static void block_only(int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
}

__attribute__((noinline)) static int is_second(void)
{
	return pthread_equal(pthread_self(), second_thread) != 0;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	CHECK_EQ(number, SIGUSR1);
	CHECK(!is_second());
	CHECK_EQ(swapcontext(&in_handler, &of_first), 0);
	CHECK(is_second());
	CHECK(blocks(SIGUSR1));
}

/* Begins in the first thread and ends in the second one. */
static void runs(void)
{
	block_only(SIGHUP);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK(is_second());
	CHECK(blocks(SIGHUP));
	CHECK(!blocks(SIGUSR1));
	CHECK(!blocks(SIGUSR2));
	setcontext(&of_second);
	CHECK(0);
}

static void *first(void *arg)
{
	for (int round = 0; round < ROUNDS; round++) {
		block_only(SIGTERM);
		CHECK_EQ(getcontext(&coroutine), 0);
		coroutine.uc_stack.ss_sp = stack;
		coroutine.uc_stack.ss_size = sizeof(stack);
		coroutine.uc_link = NULL;
		makecontext(&coroutine, runs, 0);
		CHECK_EQ(swapcontext(&of_first, &coroutine), 0);
		CHECK(blocks(SIGTERM));
		CHECK(!blocks(SIGUSR1));
		set_value(&turn, 2 * round + 1);
		await_value(&turn, 2 * round + 2);
		CHECK(blocks(SIGTERM));
		CHECK(!blocks(SIGHUP));
	}
	return arg;
}

static void *second(void *arg)
{
	second_thread = pthread_self();
	set_value(&started, 1);
	for (int round = 0; round < ROUNDS; round++) {
		block_only(SIGUSR2);
		await_value(&turn, 2 * round + 1);
		CHECK_EQ(swapcontext(&of_second, &in_handler), 0);
		CHECK(blocks(SIGUSR2));
		CHECK(!blocks(SIGUSR1));
		CHECK(!blocks(SIGHUP));
		set_value(&turn, 2 * round + 2);
	}
	return arg;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	pthread_t other = start_thread(second, NULL);
	await_value(&started, 1);
	pthread_t thread = start_thread(first, NULL);
	join_thread(thread);
	join_thread(other);
	return 0;
}
