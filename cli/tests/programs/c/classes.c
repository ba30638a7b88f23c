/* One thread named "urgent" that works now and then, and two named "burner" that always do.
 * SIGUSR1 ends the urgent one, SIGTERM the program, with status 44. */
#include "program.h"

static int calm, stop;

static void *urgent(void *arg)
{
	pthread_setname_np(pthread_self(), "urgent");
	while (!__atomic_load_n(&calm, __ATOMIC_ACQUIRE))
		sleep_ms(5);
	return arg;
}

static void *burner(void *arg)
{
	pthread_setname_np(pthread_self(), "burner");
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		;
	return arg;
}

int main(void)
{
	sigset_t signals;
	int number = 0;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGTERM);
	GOOD(pthread_sigmask(SIG_BLOCK, &signals, NULL));
	pthread_t first = start(urgent, NULL);
	pthread_t burners[] = { start(burner, NULL), start(burner, NULL) };
	say("ready");
	do {
		MUST(sigwait(&signals, &number) == 0);
		__atomic_store_n(&calm, 1, __ATOMIC_RELEASE);
	} while (number != SIGTERM);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	join(first);
	join(burners[0]);
	join(burners[1]);
	return 44;
}
