/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that nobody joins give back their memory: twenty thousand of them, a few at a time.
 */
#define _GNU_SOURCE
#include "check.h"

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

int main(void)
{
	pthread_attr_t attr;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED), 0);
	long before = 0;
	for (int i = 0; i < 20000; i++) {
		pthread_t thread;
		while (__atomic_load_n(&alive, __ATOMIC_SEQ_CST) > 16)
			sched_yield();
		add_value(&alive, 1);
		int error;
		while ((error = pthread_create(&thread, &attr, leave, NULL)) == EAGAIN)
			sched_yield();
		CHECK_EQ(error, 0);
		if (i == 2000)
			before = resident_pages();
	}
	await_value(&alive, 0);
	/* 18 000 leaked stacks would be at least as many pages. */
	CHECK(resident_pages() - before < 9000);
	return 0;
}
