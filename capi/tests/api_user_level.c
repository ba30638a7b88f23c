/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Mapped threads are user-level threads: three hundred of them add no kernel threads, except on
 * the native backend, where each is one.
 */
#define _GNU_SOURCE
#include "check.h"

#ifdef HEDDLE_PTHREAD_H
enum { COUNT = 300 };
static sem_t gate;

static void *wait_at_gate(void *arg)
{
	CHECK_EQ(sem_wait(&gate), 0);
	return arg;
}

static int kernel_threads(void)
{
	char line[256];
	int count = -1;
	FILE *file = fopen("/proc/self/status", "r");
	CHECK(file != NULL);
	while (fgets(line, sizeof line, file))
		if (sscanf(line, "Threads: %d", &count) == 1)
			break;
	fclose(file);
	return count;
}
#endif

int main(void)
{
#ifndef HEDDLE_PTHREAD_H
	SKIP("the C library's threads are kernel threads");
#else
	pthread_t threads[COUNT];
	const char *backend = getenv("HEDDLE_BACKEND");
	CHECK_EQ(sem_init(&gate, 0, 1), 0);
	/* The workers come with the first thread: as many as there are processors. */
	join_thread(start_thread(wait_at_gate, NULL));
	int before = kernel_threads();
	for (int i = 0; i < COUNT; i++)
		threads[i] = start_thread(wait_at_gate, NULL);
	sleep_ms(5);
	if (backend && strcmp(backend, "native") == 0)
		CHECK(kernel_threads() > COUNT);
	else
		CHECK(kernel_threads() < before + 40);
	for (int i = 0; i < COUNT; i++)
		CHECK_EQ(sem_post(&gate), 0);
	for (int i = 0; i < COUNT; i++)
		join_thread(threads[i]);
	return 0;
#endif
}
