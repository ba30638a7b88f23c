/* Threads that leave their stack: coroutines by makecontext, one of which ends the thread. */
#include "program.h"

#include <ucontext.h>

static __thread ucontext_t home, away;
static __thread int steps;

static void coroutine(void)
{
	for (int at = 0; at < 3; at++) {
		steps++;
		swapcontext(&away, &home);
	}
	pthread_exit((void *)(uintptr_t)77);
}

static void *run(void *arg)
{
	char *stack = malloc(1 << 16);

	(void)arg;
	MUST(stack != NULL && getcontext(&away) == 0);
	away.uc_stack.ss_sp = stack;
	away.uc_stack.ss_size = 1 << 16;
	away.uc_link = &home;
	makecontext(&away, coroutine, 0);
	for (int at = 0; at < 4; at++)
		swapcontext(&home, &away);
	return NULL;
}

int main(void)
{
	for (int at = 0; at < 5; at++)
		say_number("result", (long)join(start(run, NULL)));
	return 0;
}
