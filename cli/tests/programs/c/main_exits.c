/* Ends main by pthread_exit while others go on; the last of them ends the process with 0. */
#include "program.h"

static int leaving;

static void *later(void *arg)
{
	while (!__atomic_load_n(&leaving, __ATOMIC_ACQUIRE))
		sleep_ms(1);
	sleep_ms(50);
	say_number("thread still here", (long)(uintptr_t)arg);
	return NULL;
}

int main(void)
{
	GOOD(pthread_detach(start(later, (void *)(uintptr_t)7)));
	say_number("sum", threads(3));
	__atomic_store_n(&leaving, 1, __ATOMIC_RELEASE);
	pthread_exit(NULL);
}
