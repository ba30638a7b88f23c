/* Blocks some signals and becomes the program that its words name. */
#include "program.h"

int main(int count, char **words)
{
	sigset_t some;

	MUST(count >= 2);
	sigemptyset(&some);
	sigaddset(&some, SIGCHLD);
	sigaddset(&some, SIGTERM);
	sigaddset(&some, SIGUSR1);
	sigaddset(&some, SIGRTMIN + 3);
	MUST(sigprocmask(SIG_BLOCK, &some, NULL) == 0);
	execv(words[1], words + 1);
	return 98;
}
