/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A child that is forked while threads exist can exec and exit, and a thread that it tries to
 * create either runs or is refused; it never hangs.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/wait.h>

static sem_t gate;

static void *wait_at_gate(void *arg)
{
	sem_wait(&gate);
	return arg;
}

static void *nothing(void *arg)
{
	return arg;
}

static int status_of(pid_t child)
{
	int status;
	CHECK(child >= 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

int main(void)
{
	sem_init(&gate, 0, 0);
	pthread_t thread = start_thread(wait_at_gate, NULL);
	pid_t child = fork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
		_exit(1);
	}
	CHECK_EQ(status_of(child), 6);
	child = fork();
	if (child == 0) {
		pthread_t mine;
		if (freopen("/dev/null", "w", stderr) == NULL)
			_exit(1);
		int error = pthread_create(&mine, NULL, nothing, NULL);
		_exit(error == 0 ? pthread_join(mine, NULL) : error == EAGAIN ? 0 : 1);
	}
	CHECK_EQ(status_of(child), 0);
	sem_post(&gate);
	join_thread(thread);
	return 0;
}
