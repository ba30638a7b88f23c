/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A child that a thread forks by the number of the call, as Qt does to start programs, and systemd:
 * it has the thread's mask, waits, makes threads and becomes another program.
 */
#define _GNU_SOURCE
#include "check.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void *answer(void *arg)
{
	usleep(1000);
	return arg;
}

static pid_t by_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static pid_t by_clone3(void)
{
	struct clone_args arguments = {.exit_signal = SIGCHLD};
	pid_t child = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
	/* An older kernel has no such call. */
	return child < 0 && errno == ENOSYS ? by_clone() : child;
}

static pid_t by_fork(void)
{
#ifdef SYS_fork
	return (pid_t)syscall(SYS_fork);
#else
	return by_clone();
#endif
}

/* A thread reads what another process writes later, and another thread is made and joined. */
static void waits(void)
{
	int ends[2];
	char byte = 0;
	sigset_t mask;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
	CHECK(sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIGUSR1));
	CHECK_EQ(pipe(ends), 0);
	pid_t writer = fork();
	CHECK(writer >= 0);
	if (writer == 0) {
		usleep(5000);
		CHECK_EQ(write(ends[1], "x", 1), 1);
		_exit(0);
	}
	CHECK_EQ(read(ends[0], &byte, 1), 1);
	CHECK_EQ(waitpid(writer, NULL, 0), writer);
	join_thread(start_thread(answer, NULL));
	_exit(7);
}

static void becomes(void)
{
	char *words[] = {"sh", "-c", "exit 7", NULL};
	execvp(words[0], words);
	_exit(1);
}

static void *fork_all(void *arg)
{
	pid_t (*const forks[])(void) = {by_clone, by_clone3, by_fork};
	void (*const children[])(void) = {waits, becomes};
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &mask, NULL), 0);
	for (int i = 0; i < 6; i++) {
		int status;
		pid_t child = forks[i / 2]();
		CHECK(child >= 0);
		if (child == 0)
			children[i % 2]();
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
	return arg;
}

int main(void)
{
	alarm(20);
	join_thread(start_thread(fork_all, NULL));
	fork_all(NULL);
	return 0;
}
