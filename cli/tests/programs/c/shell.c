/* system and popen from a threaded program; what the shell sees of the environment is its own. */
#include "program.h"

static void *in_thread(void *arg)
{
	(void)arg;
	return (void *)(uintptr_t)WEXITSTATUS(system("exit 5"));
}

int main(void)
{
	char line[256];

	say_number("system", WEXITSTATUS(system("exit 3")));
	say_number("system in a thread", (long)join(start(in_thread, NULL)));
	MUST(setenv("OWN", "kept", 1) == 0);
	FILE *pipe = popen("echo own $OWN; env | grep -c -e LD_PRELOAD -e '^HEDDLE_'", "r");
	MUST(pipe != NULL);
	while (fgets(line, sizeof(line), pipe))
		printf("%s", line);
	say_number("popen", WEXITSTATUS(pclose(pipe)));
	say_number("sees a preload", getenv("LD_PRELOAD") != NULL);
	say_number("sees a plan", getenv("HEDDLE_PLAN") != NULL);
	return 0;
}
