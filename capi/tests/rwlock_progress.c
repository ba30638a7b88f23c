/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * With readers coming all the time a writer gets the lock, and with a writer waiting the readers
 * do.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_rwlock_t lock;
static int stop;

static void *reads(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
		CHECK_EQ(pthread_rwlock_rdlock(&lock), 0);
		sched_yield();
		CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	}
	return arg;
}

int main(void)
{
	pthread_rwlockattr_t attr;
	pthread_t threads[6];
	CHECK_EQ(pthread_rwlockattr_init(&attr), 0);
	CHECK_EQ(pthread_rwlockattr_setkind_np(&attr,
					       PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP), 0);
	CHECK_EQ(pthread_rwlock_init(&lock, &attr), 0);
	for (int i = 0; i < 6; i++)
		threads[i] = start_thread(reads, NULL);
	for (int i = 0; i < 20; i++) {
		struct timespec at = moment(CLOCK_REALTIME, 40000);
		CHECK_EQ(pthread_rwlock_timedwrlock(&lock, &at), 0);
		CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
		sched_yield();
	}
	set_value(&stop, 1);
	for (int i = 0; i < 6; i++)
		join_thread(threads[i]);
	return 0;
}
