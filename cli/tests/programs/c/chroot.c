/* Goes on in a folder that has nothing, and starts threads, children and a program there.
 *
 * usage: chroot FOLDER   with a static program "inside" in it */
#include "program.h"

int main(int count, char **words)
{
	char *inside[] = { "inside", "after", NULL };
	pid_t child;

	MUST(count == 2);
	say_number("outside", threads(3));
	MUST(chroot(words[1]) == 0 && chdir("/") == 0);
	say_number("inside", threads(4));
	child = fork();
	MUST(child >= 0);
	if (child == 0) {
		say_number("child", threads(5));
		return 7;
	}
	say_number("child's end", ending(child));
	execv("/inside", inside);
	return 98;
}
