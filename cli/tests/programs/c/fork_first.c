/* Forks before the first thread, twice deep; every process starts threads of its own. */
#include "program.h"

int main(void)
{
	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0) {
		pid_t grandchild = fork();

		MUST(grandchild >= 0);
		if (grandchild == 0)
			exit((int)threads(5));
		exit(ending(grandchild) + (int)threads(2));
	}
	say_number("sum here", threads(4));
	say_number("sum of the children", ending(child));
	return 0;
}
