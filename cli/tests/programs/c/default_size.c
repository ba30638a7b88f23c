/* Changes the default size of stacks while it runs; new threads have it. */
#include "program.h"

static void *size(void *arg)
{
	pthread_attr_t attr;
	size_t bytes = 0;

	(void)arg;
	GOOD(pthread_getattr_np(pthread_self(), &attr));
	GOOD(pthread_attr_getstacksize(&attr, &bytes));
	GOOD(pthread_attr_destroy(&attr));
	return (void *)(uintptr_t)bytes;
}

int main(void)
{
	pthread_attr_t attr;
	size_t bytes = 0;

	say_number("before", (uintptr_t)join(start(size, NULL)) > 0);
	GOOD(pthread_attr_init(&attr));
	GOOD(pthread_attr_setstacksize(&attr, 1 << 20));
	GOOD(pthread_setattr_default_np(&attr));
	GOOD(pthread_getattr_default_np(&attr));
	GOOD(pthread_attr_getstacksize(&attr, &bytes));
	say_number("default", (long)bytes);
	/* The tuner may give less than the default, never more than it. */
	say_number("at most that", (uintptr_t)join(start(size, NULL)) <= 1 << 20);
	return 0;
}
