/* A library that starts a thread when it is loaded and waits for its end. The thread calls much
 * for the first time in its process, while the loader runs this very constructor. */
#include "program.h"

#include <spawn.h>
#include <sys/prctl.h>

extern char **environ;
static unsigned long sum;

static void start_programs(void)
{
	char *words[] = { "true", NULL };
	FILE *pipe = popen("true", "r");
	pid_t child;

	MUST(pipe != NULL && pclose(pipe) == 0);
	MUST(system("true") == 0);
	GOOD(posix_spawnp(&child, "true", NULL, NULL, words, environ));
	MUST(ending(child) == 0);
	child = fork();
	MUST(child >= 0);
	if (child == 0) {
		execvp("true", words);
		_exit(98);
	}
	MUST(ending(child) == 0);
}

static void *all_at_first(void *none)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	struct sched_param param;
	pthread_attr_t attributes;
	int policy;

	GOOD(pthread_setname_np(pthread_self(), "loading"));
	MUST(prctl(PR_SET_NAME, "loading") == 0);
	GOOD(pthread_getschedparam(pthread_self(), &policy, &param));
	GOOD(pthread_setschedparam(pthread_self(), policy, &param));
	GOOD(pthread_attr_init(&attributes));
	GOOD(pthread_attr_setschedpolicy(&attributes, SCHED_OTHER));
	GOOD(pthread_attr_setschedparam(&attributes, &param));
	GOOD(pthread_attr_destroy(&attributes));
	MUST(sigaction(SIGSEGV, &action, NULL) == 0);
	MUST(signal(SIGBUS, SIG_DFL) == SIG_DFL);
	start_programs();
	sum = threads(3);
	return none;
}

__attribute__((constructor)) static void loaded(void)
{
	join(start(all_at_first, NULL));
}

__attribute__((visibility("default"))) unsigned long plugin_sum(int count)
{
	return sum + threads(count);
}
