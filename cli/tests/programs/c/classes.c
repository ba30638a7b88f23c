/* One thread named "urgent" that works now and then, and two named "burner" that always do.
 * SIGUSR1 ends the urgent one, SIGTERM the program, with status 44; at SIGUSR2 the urgent thread
 * makes the process run the program anew. With an argument the main thread ends at once, and the
 * others go on without it. */
#include "program.h"

static int calm, stop, anew;
static pthread_t first, burners[2];
static sigset_t signals;

static void *urgent(void *arg)
{
	pthread_setname_np(pthread_self(), "urgent");
	while (!__atomic_load_n(&calm, __ATOMIC_ACQUIRE))
		if (__atomic_load_n(&anew, __ATOMIC_ACQUIRE))
			execl("/proc/self/exe", "classes", (char *)NULL);
		else
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

static void *obey(void *arg)
{
	int number = 0;

	(void)arg;
	do {
		MUST(sigwait(&signals, &number) == 0);
		__atomic_store_n(number == SIGUSR2 ? &anew : &calm, 1, __ATOMIC_RELEASE);
	} while (number != SIGTERM);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	join(first);
	join(burners[0]);
	join(burners[1]);
	exit(44);
}

int main(int count, char **arguments)
{
	(void)arguments;
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	sigaddset(&signals, SIGTERM);
	GOOD(pthread_sigmask(SIG_BLOCK, &signals, NULL));
	first = start(urgent, NULL);
	burners[0] = start(burner, NULL);
	burners[1] = start(burner, NULL);
	say("ready");
	if (count > 1) {
		start(obey, NULL);
		pthread_exit(NULL);
	}
	obey(NULL);
}
