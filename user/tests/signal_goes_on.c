/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A handler may go on with the registers of the context that it was given, by setcontext: as if it
 * had returned, with the mask that goes with them. On the thread's stack or its alternate one.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <ucontext.h>

enum { ROUNDS = 50, STACK_BYTES = 64 << 10 };

static _Thread_local volatile int handled;
static volatile int change;

static int blocks(int number)
{
	sigset_t now;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, number);
}

static void on_signal(int number, siginfo_t *info, void *place)
{
	ucontext_t *given = place, goes_on;
	CHECK_EQ(number, SIGUSR1);
	CHECK_EQ(info->si_signo, SIGUSR1);
	CHECK(blocks(SIGUSR1));
	handled++;
	/* Where setcontext looks for floating-point registers the kernel has put something else. */
	CHECK_EQ(getcontext(&goes_on), 0);
	memcpy(goes_on.uc_mcontext.gregs, given->uc_mcontext.gregs, sizeof(gregset_t));
	goes_on.uc_sigmask = given->uc_sigmask;
	if (change)
		sigaddset(&goes_on.uc_sigmask, SIGHUP);
	setcontext(&goes_on);
	CHECK(0);
}

static void *body(void *arg)
{
	char *alternate = malloc(STACK_BYTES);
	stack_t stack = { .ss_sp = alternate, .ss_size = STACK_BYTES };
	sigset_t hup;
	sigemptyset(&hup);
	sigaddset(&hup, SIGHUP);
	CHECK_EQ(sigaltstack(&stack, NULL), 0);
	for (int i = 1; i <= ROUNDS; i++) {
		int kept = i * 3;
		struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
		if (i % 2)
			action.sa_flags |= SA_ONSTACK;
		change = i / 2 % 2;
		CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
		CHECK_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
		CHECK_EQ(handled, i);
		CHECK_EQ(kept, i * 3);
		CHECK(!blocks(SIGUSR1));
		CHECK_EQ(blocks(SIGHUP), change);
		CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &hup, NULL), 0);
		CHECK_EQ(sigaltstack(NULL, &stack), 0);
		CHECK_EQ(stack.ss_flags, 0);
	}
	stack.ss_flags = SS_DISABLE;
	CHECK_EQ(sigaltstack(&stack, NULL), 0);
	free(alternate);
	return arg;
}

int main(void)
{
	body(NULL);
	join_thread(start_thread(body, NULL));
	return 0;
}
