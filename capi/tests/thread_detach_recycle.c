/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that nobody joins give back their memory: twenty thousand of them, a few at a time. Each
 * worker keeps some stacks at hand, so there are more of them where there are many workers.
 */
#define _GNU_SOURCE
#include "check.h"

enum { THREADS = 20000, BY_WORKER = 1000, FIRST = 2000 };

static int alive;

static void *leave(void *arg)
{
	add_value(&alive, -1);
	return arg;
}

static long resident_pages(void)
{
	long size, resident;
	FILE *file = fopen("/proc/self/statm", "r");
	CHECK(file != NULL);
	CHECK_EQ(fscanf(file, "%ld %ld", &size, &resident), 2);
	fclose(file);
	return resident;
}

static long workers(void)
{
	const char *said = getenv("HEDDLE_WORKERS");
	return said ? atol(said) : sysconf(_SC_NPROCESSORS_ONLN);
}

int main(void)
{
	long count = THREADS + BY_WORKER * workers();
	pthread_attr_t attr;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED), 0);
	long before = 0;
	for (long i = 0; i < count; i++) {
		pthread_t thread;
		while (__atomic_load_n(&alive, __ATOMIC_SEQ_CST) > 16)
			sched_yield();
		add_value(&alive, 1);
		int error;
		while ((error = pthread_create(&thread, &attr, leave, NULL)) == EAGAIN)
			sched_yield();
		CHECK_EQ(error, 0);
		if (i == FIRST)
			before = resident_pages();
	}
	await_value(&alive, 0);
	/* So many leaked stacks would be at least as many pages. */
	CHECK(resident_pages() - before < (count - FIRST) / 2);
	return 0;
}
