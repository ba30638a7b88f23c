/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * When main returns the process ends, whatever its threads do.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/wait.h>

static sem_t gate;

static void *wait_forever(void *arg)
{
	sem_wait(&gate);
	return arg;
}

int main(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		sem_init(&gate, 0, 0);
		start_thread(wait_forever, NULL);
		sleep_ms(5);
		return 5;
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 5);
	return 0;
}
