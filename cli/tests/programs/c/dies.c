/* Dies as it is told while threads run. usage: dies kill|segv|abort|exit|quick|term */
#include "program.h"

static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *die(void *arg)
{
	const char *how = arg;

	if (strcmp(how, "kill") == 0)
		kill(getpid(), SIGKILL);
	if (strcmp(how, "segv") == 0)
		*(volatile int *)8 = 1;
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "exit") == 0)
		exit(33);
	if (strcmp(how, "quick") == 0)
		_exit(34);
	if (strcmp(how, "term") == 0)
		raise(SIGTERM);
	return NULL;
}

int main(int count, char **words)
{
	MUST(count == 2);
	say_number("sum", threads(5));
	start(wait_for_ever, NULL);
	start(die, words[1]);
	wait_for_ever(NULL);
	return 1;
}
