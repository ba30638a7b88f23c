/* vfork and exec from a threaded program, from main and from a thread; one exec fails. */
#include "program.h"

static int run(const char *program, const char *script)
{
	pid_t child = vfork();

	MUST(child >= 0);
	if (child == 0) {
		execl(program, "sh", "-c", script, (char *)NULL);
		_exit(127);
	}
	return ending(child);
}

static void *from_thread(void *arg)
{
	(void)arg;
	return (void *)(uintptr_t)run("/bin/sh", "exit 9");
}

int main(void)
{
	say_number("sum", threads(3));
	say_number("from main", run("/bin/sh", "exit 7"));
	say_number("from a thread", (long)join(start(from_thread, NULL)));
	say_number("missing program", run("/nonexistent/program", "exit 7"));
	say_number("sum", threads(3));
	return 0;
}
