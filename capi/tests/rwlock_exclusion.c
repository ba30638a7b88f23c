/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Writers exclude readers and each other under load.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static volatile int left, right;
static int reads_done;

static void *writes(void *arg)
{
	for (int i = 0; i < 200; i++) {
		CHECK_EQ(pthread_rwlock_wrlock(&lock), 0);
		left = left + 1;
		sched_yield();
		right = right + 1;
		CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	}
	return arg;
}

static void *reads(void *arg)
{
	for (int i = 0; i < 200; i++) {
		CHECK_EQ(pthread_rwlock_rdlock(&lock), 0);
		int seen = left;
		if (i % 8 == 0)
			sched_yield();
		CHECK_EQ(seen, right);
		CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
		add_value(&reads_done, 1);
	}
	return arg;
}

int main(void)
{
	pthread_t threads[9];
	for (int i = 0; i < 9; i++)
		threads[i] = start_thread(i % 3 == 0 ? writes : reads, NULL);
	for (int i = 0; i < 9; i++)
		join_thread(threads[i]);
	CHECK_EQ(left, 600);
	CHECK_EQ(right, 600);
	CHECK_EQ(reads_done, 1200);
	return 0;
}
