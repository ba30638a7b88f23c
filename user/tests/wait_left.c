/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A handler that jumps out of a wait for a child, or ends the thread there, leaves no descriptor
 * open; and the child can be waited for afterwards.
 */
#define _GNU_SOURCE
#include "check.h"
#include "kill_until.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

enum { ROUNDS = 40, MOST = 10, NUMBERS = 4096 };

static _Thread_local sigjmp_buf back;
static _Thread_local volatile int waits, ends;
static int rounds;
static pid_t child;

static void on_signal(int number)
{
	(void)number;
	if (!waits)
		return;
	waits = 0;
	if (ends) {
		add_value(&rounds, 1);
		pthread_exit(NULL);
	}
	siglongjmp(back, 1);
}

static void wait_for_child(int by_id)
{
	siginfo_t info;
	waits = 1;
	if (by_id)
		waitid(P_PID, child, &info, WEXITED);
	else
		waitpid(child, NULL, 0);
	/* It never ends by itself. */
	CHECK(0);
}

static void *jumps(void *arg)
{
	for (volatile int round = 0; round < ROUNDS; round++) {
		if (sigsetjmp(back, 1) == 0)
			wait_for_child(round % 2);
		add_value(&rounds, 1);
	}
	return arg;
}

static void *exits(void *arg)
{
	ends = 1;
	wait_for_child(0);
	return arg;
}

/* Descriptors that are open, whatever their numbers. */
static int count_open(void)
{
	int count = 0;
	for (int fd = 0; fd < NUMBERS; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void run(void *(*body)(void *), int until)
{
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, body, NULL), 0);
	for (int round = rounds + 1; round <= until; round++)
		kill_until(thread, SIGUSR1, &rounds, round);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void *body(void *arg)
{
	run(jumps, ROUNDS);
	int before = count_open();
	run(jumps, 2 * ROUNDS);
	for (int round = 1; round <= ROUNDS; round++)
		run(exits, 2 * ROUNDS + round);
	CHECK(count_open() < before + MOST);
	CHECK_EQ(kill(child, SIGKILL), 0);
	CHECK_EQ(waitpid(child, NULL, 0), child);
	return arg;
}

int main(void)
{
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		sleep(100);
		_exit(0);
	}
	struct sigaction action = { .sa_handler = on_signal };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, body, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return 0;
}
