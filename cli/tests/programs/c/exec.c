/* Replaces itself while threads run, from main and from another thread, and starts some again. */
#include "program.h"

static char *self;

static void *replace(void *arg)
{
	char *words[] = { self, arg, NULL };

	execv("/proc/self/exe", words);
	MUST(!"execv came back");
	return NULL;
}

static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(int count, char **words)
{
	self = words[0];
	say_number("sum", threads(3));
	if (count < 2) {
		start(wait_for_ever, NULL);
		replace("by main");
	}
	printf("replaced %s\n", words[1]);
	fflush(stdout);
	if (strcmp(words[1], "by main") == 0) {
		start(replace, "by a thread");
		wait_for_ever(NULL);
	}
	return 21;
}
