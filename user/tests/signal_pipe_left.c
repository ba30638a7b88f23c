/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A SIGPIPE that is pending for the process stays that, and is not the thread's that blocks it,
 * when that one has handled another before: so in a child that a handler forks.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static sigset_t both;
static int handled;

static void *takes(void *arg)
{
	struct timespec at_once = { 0, 0 };
	CHECK_EQ(sigtimedwait(&both, NULL, &at_once), SIGPIPE);
	return arg;
}

static void is_left(void)
{
	sigset_t pending;
	CHECK_EQ(kill(getpid(), SIGPIPE), 0);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
	CHECK_EQ(sigpending(&pending), 0);
	CHECK_EQ(sigismember(&pending, SIGPIPE), 1);
	join_thread(start_thread(takes, NULL));
	CHECK_EQ(sigpending(&pending), 0);
	CHECK_EQ(sigismember(&pending, SIGPIPE), 0);
}

/* It blocks both here; nobody has said so by a call. */
static void on_signal(int number)
{
	if (number == SIGPIPE && add_value(&handled, 1) == 1) {
		int status;
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			is_left();
			_exit(0);
		}
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK_EQ(status, 0);
	}
}

static void *returns(void *arg)
{
	return arg;
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t pending;
	sigemptyset(&both);
	sigaddset(&both, SIGPIPE);
	sigaddset(&both, SIGXFSZ);
	action.sa_mask = both;
	CHECK_EQ(sigaction(SIGPIPE, &action, NULL), 0);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
	join_thread(start_thread(returns, NULL));
	CHECK_EQ(kill(getpid(), SIGPIPE), 0);
	do
		CHECK_EQ(sigpending(&pending), 0);
	while (!sigismember(&pending, SIGPIPE));
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &both, NULL), 0);
	CHECK_EQ(handled, 1);
	return 0;
}
