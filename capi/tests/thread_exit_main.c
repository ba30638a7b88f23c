/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * When main calls pthread_exit the other threads go on, and the last of them ends the process
 * with status 0.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/wait.h>

static int written[2];

static void *write_later(void *arg)
{
	sleep_ms(20);
	CHECK_EQ(write(written[1], "x", 1), 1);
	return arg;
}

int main(void)
{
	CHECK_EQ(pipe(written), 0);
	/* The child is forked before any thread exists. */
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		start_thread(write_later, NULL);
		pthread_exit(NULL);
	}
	int status;
	char byte = 0;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	CHECK_EQ(read(written[0], &byte, 1), 1);
	CHECK_EQ(byte, 'x');
	return 0;
}
