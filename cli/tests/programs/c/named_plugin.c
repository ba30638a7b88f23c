/* A library with one thread function. Compiled twice, with another NAME and another use of stack
 * (USED bytes), to be loaded one after the other at the same address. */
#include "program.h"

static void *NAME(void *arg)
{
	volatile char used[USED];

	for (size_t at = 0; at < sizeof(used); at++)
		used[at] = 1;
	return arg;
}

__attribute__((visibility("default"))) int plugin_go(void)
{
	join(start(NAME, NULL));
	return 0;
}
