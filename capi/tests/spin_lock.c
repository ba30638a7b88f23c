/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A spin lock excludes, also when its holder yields to the threads that spin for it.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_spinlock_t lock;
static volatile int counter;

static void *counts(void *arg)
{
	for (int i = 0; i < 300; i++) {
		CHECK_EQ(pthread_spin_lock(&lock), 0);
		int seen = counter;
		if (i % 30 == 0)
			sched_yield();
		counter = seen + 1;
		CHECK_EQ(pthread_spin_unlock(&lock), 0);
	}
	return arg;
}

int main(void)
{
	pthread_t threads[4];
	CHECK_EQ(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE), 0);
	for (int i = 0; i < 4; i++)
		threads[i] = start_thread(counts, NULL);
	counts(NULL);
	for (int i = 0; i < 4; i++)
		join_thread(threads[i]);
	CHECK_EQ(counter, 1500);
	CHECK_EQ(pthread_spin_destroy(&lock), 0);
	return 0;
}
