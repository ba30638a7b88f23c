/* Has its first threads under a limit of its own. usage: limits files|size|memory */
#include "program.h"

#include <sys/resource.h>

static unsigned long limited(int resource, rlim_t most)
{
	struct rlimit before, limit;

	MUST(getrlimit(resource, &before) == 0);
	limit = before;
	limit.rlim_cur = most;
	MUST(setrlimit(resource, &limit) == 0);
	unsigned long sum = threads(2);
	/* Output may go to a file. */
	MUST(setrlimit(resource, &before) == 0);
	return sum;
}

int main(int count, char **words)
{
	const char *which = count == 2 ? words[1] : "";

	if (strcmp(which, "files") == 0)
		say_number("sum", limited(RLIMIT_NOFILE, 0));
	else if (strcmp(which, "size") == 0)
		say_number("sum", limited(RLIMIT_FSIZE, 0));
	else
		say_number("sum", limited(RLIMIT_AS, 256 << 20));
	say_number("sum", threads(2));
	return 0;
}
