/* Uses as many KiB of a thread's stack as it is told. usage: deep KIB */
#include "program.h"

__attribute__((noinline)) static long dig(long kib)
{
	volatile char used[1024];

	memset((void *)used, (int)kib + 1, sizeof(used));
	return kib <= 1 ? used[5] : dig(kib - 1) + used[7];
}

static void *digger(void *arg)
{
	pthread_setname_np(pthread_self(), "digger");
	dig((long)(intptr_t)arg);
	return arg;
}

int main(int count, char **words)
{
	MUST(count == 2);
	say_number("dug", (long)join(start(digger, (void *)atol(words[1]))));
	return 0;
}
