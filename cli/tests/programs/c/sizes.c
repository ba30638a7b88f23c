/* Explicit stacks, from the smallest to huge ones, and the program's own memory; each thread
 * sees the size that was asked for. */
#include "program.h"

#include <limits.h>
#include <sys/mman.h>

static void *size(void *arg)
{
	pthread_attr_t attr;
	size_t bytes = 0, guard = 0;
	void *low = NULL;

	(void)arg;
	GOOD(pthread_getattr_np(pthread_self(), &attr));
	GOOD(pthread_attr_getstack(&attr, &low, &bytes));
	GOOD(pthread_attr_getguardsize(&attr, &guard));
	GOOD(pthread_attr_destroy(&attr));
	char *here = __builtin_frame_address(0);
	MUST(here > (char *)low && here <= (char *)low + bytes);
	return (void *)(uintptr_t)bytes;
}

static void asked(const char *what, size_t bytes, size_t guard, void *memory)
{
	pthread_attr_t attr;
	pthread_t thread;

	GOOD(pthread_attr_init(&attr));
	if (memory)
		GOOD(pthread_attr_setstack(&attr, memory, bytes));
	else
		GOOD(pthread_attr_setstacksize(&attr, bytes));
	GOOD(pthread_attr_setguardsize(&attr, guard));
	GOOD(pthread_create(&thread, &attr, size, NULL));
	say_number(what, (long)join(thread));
	GOOD(pthread_attr_destroy(&attr));
}

int main(void)
{
	size_t own = 256 << 10;
	void *memory = mmap(NULL, own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;

	MUST(memory != MAP_FAILED);
	asked("smallest", (size_t)PTHREAD_STACK_MIN, 4096, NULL);
	asked("odd", (size_t)PTHREAD_STACK_MIN + 12345, 4096, NULL);
	asked("no guard", 64 << 10, 0, NULL);
	asked("big guard", 256 << 10, 64 << 10, NULL);
	asked("huge", (size_t)1 << 30, 4096, NULL);
	for (int round = 0; round < 3; round++)
		asked("own memory", own, 4096, memory);
	GOOD(pthread_attr_init(&attr));
	MUST(pthread_attr_setstacksize(&attr, 1) == EINVAL);
	GOOD(pthread_attr_setstacksize(&attr, (size_t)1 << 46));
	say_number("impossible", pthread_create(&thread, &attr, size, NULL));
	say_number("sum", threads(4));
	return 0;
}
