/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Waiting for a process is a cancellation point.
 */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <sys/wait.h>

static pid_t child;

static void *waits(void *arg)
{
	int status;
	waitpid(child, &status, 0);
	return arg;
}

int main(void)
{
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		pause();
		_exit(0);
	}
	pthread_t thread = start_thread(waits, NULL);
	sleep_ms(10);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(kill(child, SIGKILL), 0);
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	return 0;
}
