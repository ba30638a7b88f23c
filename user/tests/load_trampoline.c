/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A library that calls through instructions on the stack is loaded while threads exist: those that
 * are older than it call it, and younger ones.
 */
#include "check.h"
#include <dlfcn.h>

enum { THREADS = 8 };

static int (*nested)(int);

static void *calls(void *number)
{
	int step = (int)(long)number;
	CHECK_EQ(nested(step), 2 * step);
	return NULL;
}

static pthread_barrier_t gate;

static void *calls_later(void *number)
{
	pthread_barrier_wait(&gate);
	pthread_barrier_wait(&gate);
	return calls(number);
}

int main(void)
{
	pthread_t old[THREADS], young[THREADS];
	CHECK_EQ(pthread_barrier_init(&gate, NULL, THREADS + 1), 0);
	for (long i = 0; i < THREADS; i++)
		old[i] = start_thread(calls_later, (void *)i);
	pthread_barrier_wait(&gate);
	void *library = dlopen(PARTS "nested.so", RTLD_NOW);
	if (!library) {
		const char *why = dlerror();
		CHECK(strstr(why, "executable stack"));
		printf("skip: this C library loads no such library: %s\n", why);
		return 0;
	}
	nested = (int (*)(int))dlsym(library, "nested");
	CHECK(nested);
	pthread_barrier_wait(&gate);
	for (long i = 0; i < THREADS; i++)
		young[i] = start_thread(calls, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		join_thread(old[i]);
		join_thread(young[i]);
	}
	return 0;
}
