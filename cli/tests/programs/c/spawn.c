/* posix_spawn and execve with environments of the program's own making: the child sees just these.
 * The child prints all of it. */
#include "program.h"

#include <spawn.h>

extern char **environ;

static void print_all(char *const *environment)
{
	char *words[] = { "env", NULL };
	pid_t child;

	GOOD(posix_spawn(&child, "/usr/bin/env", NULL, NULL, words, environment));
	say_number("posix_spawn", ending(child));
	GOOD(posix_spawnp(&child, "env", NULL, NULL, words, environment));
	say_number("posix_spawnp", ending(child));
	child = fork();
	MUST(child >= 0);
	if (child == 0) {
		execve("/usr/bin/env", words, environment);
		_exit(127);
	}
	say_number("execve", ending(child));
}

int main(void)
{
	char *two[] = { "FIRST=1", "SECOND=two words", NULL };
	char *none[] = { NULL };
	char *words[] = { "program", NULL };
	pid_t child;

	say_number("sum", threads(2));
	print_all(two);
	print_all(none);
	MUST(clearenv() == 0 && setenv("ONLY", "this", 1) == 0);
	print_all(environ);
	MUST(posix_spawn(&child, "/nonexistent/program", NULL, NULL, words, two) == ENOENT);
	MUST(execve("/nonexistent/program", words, two) == -1 && errno == ENOENT);
	say_number("sum", threads(2));
	return 0;
}
