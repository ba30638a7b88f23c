/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * system() and popen() take a command as long as the kernel does, if it is full of quotes, too.
 */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { QUOTES = 30000, STATUS = 3 };

static void *runs(void *command)
{
	int status = system(command);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
	FILE *pipe = popen(command, "r");
	CHECK(pipe != NULL);
	CHECK_EQ(fgetc(pipe), 'a');
	status = pclose(pipe);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
	return NULL;
}

int main(void)
{
	static char command[4 * QUOTES];

	char *end = stpcpy(command, "echo a");
	for (int i = 0; i < QUOTES; i++)
		end = stpcpy(end, "''");
	stpcpy(end, "; exit 3");
	runs(command);
	join_thread(start_thread(runs, command));
	return 0;
}
