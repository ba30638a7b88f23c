/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Starts the program that the first word names from the folder that the second one names. */
#define _GNU_SOURCE
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

int main(int count, char **words)
{
	posix_spawn_file_actions_t actions;
	int status = 0;
	pid_t child;

	if (count < 3 || posix_spawn_file_actions_init(&actions) ||
	    posix_spawn_file_actions_addchdir_np(&actions, words[2]) ||
	    posix_spawn(&child, words[1], &actions, NULL, words + 1, environ))
		return 1;
	return waitpid(child, &status, 0) != child || status;
}
