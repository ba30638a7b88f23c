/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread begins with the signals blocked that its attributes say (pthread_attr_setsigmask_np),
 * else with those of who makes it; on a stack of the program's, too.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <stdbool.h>

static volatile int handled;

static void on_signal(int number)
{
	(void)number;
	handled++;
}

static sigset_t set_of(int first, int second)
{
	sigset_t set;
	CHECK_EQ(sigemptyset(&set), 0);
	CHECK_EQ(sigaddset(&set, first), 0);
	CHECK_EQ(sigaddset(&set, second), 0);
	return set;
}

/* The mask holds from the first instruction on: what it blocks is pending, all else is handled. */
static void *look(void *place)
{
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, place), 0);
	handled = 0;
	CHECK_EQ(raise(SIGUSR1), 0);
	return (void *)(long)handled;
}

static void expect(pthread_attr_t *attr, int first, int second)
{
	sigset_t seen;
	pthread_t thread;
	void *result;

	CHECK_EQ(pthread_create(&thread, attr, look, &seen), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	for (int number = 1; number < 32; number++)
		CHECK_EQ(sigismember(&seen, number), number == first || number == second);
	CHECK_EQ((long)result, first != SIGUSR1 && second != SIGUSR1);
}

static void *try_all(void *unused)
{
	sigset_t own = set_of(SIGHUP, SIGALRM), wanted = set_of(SIGUSR1, SIGUSR2);
	sigset_t other = set_of(SIGTERM, SIGUSR2);
	pthread_attr_t attr;
	void *stack;

	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &own, NULL), 0);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	expect(&attr, SIGHUP, SIGALRM);
	CHECK_EQ(pthread_attr_setsigmask_np(&attr, &wanted), 0);
	expect(&attr, SIGUSR1, SIGUSR2);
	CHECK_EQ(pthread_attr_setsigmask_np(&attr, &other), 0);
	expect(&attr, SIGTERM, SIGUSR2);
	CHECK_EQ(posix_memalign(&stack, 4096, 256 << 10), 0);
	CHECK_EQ(pthread_attr_setstack(&attr, stack, 256 << 10), 0);
	expect(&attr, SIGTERM, SIGUSR2);
	CHECK_EQ(pthread_attr_setsigmask_np(&attr, NULL), 0);
	expect(&attr, SIGHUP, SIGALRM);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	free(stack);
	/* That of who made them is as it was. */
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &other), 0);
	CHECK_EQ(sigismember(&other, SIGUSR2), 0);
	CHECK_EQ(sigismember(&other, SIGHUP), 1);
	return unused;
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	pthread_t thread;

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(pthread_create(&thread, NULL, try_all, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	try_all(NULL);
	return 0;
}
