/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * siglongjmp out of a handler puts the thread's mask back if sigsetjmp was asked to keep it, and
 * lets through what is pending by then; else the mask stays the handler's.
 */
#define _GNU_SOURCE
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

enum { ROUNDS = 100 };

static _Thread_local sigjmp_buf back;
static _Thread_local volatile int handled, others;
static int ready, turn;

static int blocks(int number)
{
	sigset_t now;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, number);
}

static void jumps(int number)
{
	CHECK(blocks(number));
	CHECK(blocks(SIGUSR2));
	handled++;
	siglongjmp(back, handled);
}

static void counts(int number)
{
	(void)number;
	others++;
}

static void mask(int how, int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	CHECK_EQ(pthread_sigmask(how, &set, NULL), 0);
}

static void *jump(void *arg)
{
	mask(SIG_BLOCK, SIGHUP);
	volatile int round = 0;
	/* Out of a handler that it raised itself. */
	sigsetjmp(back, 1);
	CHECK_EQ(handled, round);
	CHECK(blocks(SIGHUP));
	CHECK(!blocks(SIGUSR1));
	if (round++ < 3)
		raise(SIGUSR1);
	/* Without the mask. */
	handled = 0;
	if (sigsetjmp(back, 0) == 0)
		raise(SIGUSR1);
	CHECK_EQ(handled, 1);
	CHECK(blocks(SIGUSR1));
	CHECK(blocks(SIGUSR2));
	mask(SIG_UNBLOCK, SIGUSR1);
	/* What came meanwhile comes with the jump. */
	CHECK_EQ(raise(SIGUSR2), 0);
	CHECK_EQ(others, 0);
	mask(SIG_UNBLOCK, SIGUSR2);
	CHECK_EQ(others, 1);
	if (sigsetjmp(back, 1) == 0) {
		mask(SIG_BLOCK, SIGUSR2);
		CHECK_EQ(raise(SIGUSR2), 0);
		siglongjmp(back, 1);
	}
	CHECK_EQ(others, 2);
	/* A buffer that is used again without a mask. */
	mask(SIG_BLOCK, SIGUSR2);
	if (setjmp(back) == 0)
		longjmp(back, 1);
	CHECK(blocks(SIGUSR2));
	mask(SIG_UNBLOCK, SIGUSR2);
	return arg;
}

/* Out of handlers in the middle of what it computes, and of calls that wait. */
static void *interrupted(void *arg)
{
	handled = 0;
	for (volatile int round = 1; round <= ROUNDS; round++) {
		if (sigsetjmp(back, 1) == 0) {
			set_value(&turn, round);
			switch (round % 4) {
			case 0:
				for (;;)
					;
			case 1:
				sleep(100);
				break;
			case 2:
				pause();
				break;
			default:
				for (;;)
					sched_yield();
			}
		}
		CHECK_EQ(handled, round);
		CHECK(!blocks(SIGUSR1));
	}
	return arg;
}

static void *forks(void *arg)
{
	mask(SIG_BLOCK, SIGHUP);
	if (sigsetjmp(back, 1) == 0) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			mask(SIG_BLOCK, SIGUSR1);
			siglongjmp(back, 1);
		}
		int status;
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK_EQ(status, 0);
	} else {
		_exit(!blocks(SIGHUP) || blocks(SIGUSR1));
	}
	return arg;
}

int main(void)
{
	struct sigaction action = { .sa_handler = jumps };
	sigaddset(&action.sa_mask, SIGUSR2);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	action.sa_handler = counts;
	CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
	join_thread(start_thread(jump, NULL));
	pthread_t thread = start_thread(interrupted, NULL);
	for (int round = 1; round <= ROUNDS; round++) {
		await_value(&turn, round);
		if (round % 3 == 0)
			sleep_ms(1);
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	}
	join_thread(thread);
	join_thread(start_thread(forks, NULL));
	(void)ready;
	return 0;
}
