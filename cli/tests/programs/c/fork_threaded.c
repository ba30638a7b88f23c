/* Forks while other threads run; the child, which has one thread only, starts threads again. */
#include "program.h"

static int stop;

static void *spin(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		sleep_ms(1);
	return arg;
}

int main(void)
{
	pthread_t others[3];

	for (int at = 0; at < 3; at++)
		others[at] = start(spin, NULL);
	for (int round = 0; round < 5; round++) {
		pid_t child = fork();

		MUST(child >= 0);
		if (child == 0)
			exit(threads(4) == 12 ? 40 + round : 1);
		say_number("child ended with", ending(child));
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (int at = 0; at < 3; at++)
		join(others[at]);
	say_number("sum", threads(8));
	return 0;
}
