/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A process forks while another thread changes what a signal does: the child may change it, too,
 * and is told of the signal by the one handler or the other.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 1500, SECONDS = 20 };

static int over;
static volatile sig_atomic_t handled;

static void on_one(int signal)
{
	handled = signal;
}

static void on_other(int signal, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	handled = signal;
}

static void *changes(void *arg)
{
	struct sigaction one = { .sa_handler = on_one };
	struct sigaction other = { .sa_sigaction = on_other, .sa_flags = SA_SIGINFO | SA_RESTART };

	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
		CHECK_EQ(sigaction(SIGUSR1, &one, NULL), 0);
		CHECK_EQ(sigaction(SIGUSR1, &other, NULL), 0);
	}
	return arg;
}

static void in_child(void)
{
	struct sigaction told;

	/* One that hangs is ended. */
	alarm(SECONDS);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(handled, SIGUSR1);
	CHECK_EQ(sigaction(SIGUSR1, NULL, &told), 0);
	CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
	CHECK_EQ(raise(SIGUSR1), 0);
	_exit(0);
}

int main(void)
{
	CHECK(signal(SIGUSR1, on_one) != SIG_ERR);
	pthread_t thread = start_thread(changes, NULL);
	for (int i = 0; i < FORKS; i++) {
		int status;
		pid_t child = fork();

		CHECK(child >= 0);
		if (child == 0)
			in_child();
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK_EQ(status, 0);
	}
	set_value(&over, 1);
	join_thread(thread);
	return 0;
}
