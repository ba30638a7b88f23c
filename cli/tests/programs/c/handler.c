/* Has handlers of its own for SIGSEGV and SIGBUS, on stacks of its own, and lives on after them. */
#include "program.h"

#include <setjmp.h>
#include <sys/mman.h>

static __thread sigjmp_buf back;

static void recover(int number, siginfo_t *info, void *context)
{
	(void)info, (void)context;
	siglongjmp(back, number);
}

static volatile int depth;

__attribute__((noinline)) static int endless(volatile char *from)
{
	volatile char here[512];

	here[0] = from ? from[0] : 0;
	depth++;
	return depth < 0 ? 0 : endless(here) + here[0];
}

static void *overflow(void *arg)
{
	stack_t stack = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };

	(void)arg;
	MUST(sigaltstack(&stack, NULL) == 0);
	int number = sigsetjmp(back, 1);
	if (number == 0)
		endless(NULL);
	stack_t none = { .ss_flags = SS_DISABLE };
	MUST(sigaltstack(&none, NULL) == 0);
	free(stack.ss_sp);
	return (void *)(uintptr_t)number;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = recover, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct sigaction before;

	MUST(sigaction(SIGSEGV, NULL, &before) == 0);
	say_number("default before", before.sa_handler == SIG_DFL);
	MUST(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
	volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int round = 0; round < 3; round++) {
		int number = sigsetjmp(back, 1);

		if (number == 0)
			page[0] = 1;
		say_number("fault", number);
	}
	for (int round = 0; round < 3; round++)
		say_number("overflow", (long)join(start(overflow, NULL)));
	say_number("sum", threads(3));
	return 0;
}
