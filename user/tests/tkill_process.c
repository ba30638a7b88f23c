/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * tkill, which is there by number alone, sends signals to threads of other processes, too, as
 * debuggers do; and to the caller's own.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

static int handled;

static void on_signal(int number)
{
	add_value(&handled, number == SIGUSR1);
}

static void *sends(void *arg)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0)
		for (;;)
			pause();
	CHECK_EQ(syscall(SYS_tkill, child, SIGSTOP), 0);
	CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	CHECK_EQ(syscall(SYS_tkill, child, SIGKILL), 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK_ERRNO(syscall(SYS_tkill, child, SIGUSR1), ESRCH);
	handled = 0;
	CHECK_EQ(syscall(SYS_tkill, gettid(), SIGUSR1), 0);
	await_value(&handled, 1);
	return arg;
}

int main(void)
{
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
	sends(NULL);
	join_thread(start_thread(sends, NULL));
	sends(NULL);
	return 0;
}
