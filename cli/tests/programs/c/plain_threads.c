/* Some named threads and nothing else; for the ways of linking and starting. */
#include "program.h"

static void *named(void *arg)
{
	pthread_setname_np(pthread_self(), "worker");
	return twice(arg);
}

int main(int count, char **words)
{
	unsigned long sum = 0;

	for (uintptr_t at = 0; at < 8; at++)
		sum += (uintptr_t)join(start(named, (void *)at));
	say_number("sum", (long)sum);
	for (int at = 1; at < count; at++)
		say(words[at]);
	return 12;
}
