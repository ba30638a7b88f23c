/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What all threads block is pending while one of them starts others, and children by vfork.
 */
#define _GNU_SOURCE
#include "check.h"
#include "own_stack.h"
#include <signal.h>
#include <sys/wait.h>

enum { STARTED = 100 };

static sigset_t both;
static int stop;

static int is_pending(int number)
{
	sigset_t set;
	CHECK_EQ(sigpending(&set), 0);
	return sigismember(&set, number);
}

static void await_pending(int number)
{
	while (!is_pending(number))
		sleep_ms(1);
}

static int status_of(pid_t child)
{
	int status;
	CHECK(child >= 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	return status;
}

static void *computes(void *arg)
{
	while (!*(volatile int *)&stop)
		;
	return arg;
}

static void *looks(void *arg)
{
	sigset_t own;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &own), 0);
	CHECK_EQ(sigismember(&own, SIGPIPE), 1);
	return arg;
}

/* Both kinds of threads, while the signal comes again and again. */
static void *starts(void *arg)
{
	for (int i = 0; i < STARTED; i++) {
		join_thread(start_on_own_stack(looks, NULL));
		join_thread(start_thread(looks, NULL));
		pid_t child = vfork();
		if (child == 0)
			_exit(0);
		CHECK_EQ(status_of(child), 0);
	}
	return arg;
}

static void begins_blocked(void)
{
	pid_t process = getpid(), child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		while (getppid() == process)
			kill(process, SIGPIPE);
		_exit(0);
	}
	pthread_t busy = start_thread(computes, NULL);
	join_thread(start_thread(starts, NULL));
	starts(NULL);
	set_value(&stop, 1);
	join_thread(busy);
	CHECK_EQ(kill(child, SIGKILL), 0);
	CHECK_EQ(WTERMSIG(status_of(child)), SIGKILL);
	await_pending(SIGPIPE);
}

int main(void)
{
	sigemptyset(&both);
	sigaddset(&both, SIGPIPE);
	sigaddset(&both, SIGXFSZ);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
	begins_blocked();
	return 0;
}
