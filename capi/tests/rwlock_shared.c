/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Readers share the lock; a writer has it alone; try calls answer EBUSY.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int inside, let_go;

static void *reads(void *arg)
{
	CHECK_EQ(pthread_rwlock_rdlock(&lock), 0);
	add_value(&inside, 1);
	await_value(&let_go, 1);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	return arg;
}

static void *tries(void *arg)
{
	(void)arg;
	int reading = pthread_rwlock_tryrdlock(&lock);
	if (reading == 0)
		CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	int writing = pthread_rwlock_trywrlock(&lock);
	if (writing == 0)
		CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	return (void *)(intptr_t)(reading * 1000 + writing);
}

static int try_elsewhere(void)
{
	return (int)(intptr_t)join_thread(start_thread(tries, NULL));
}

int main(void)
{
	pthread_t threads[6];
	CHECK_EQ(try_elsewhere(), 0);
	for (int i = 0; i < 6; i++)
		threads[i] = start_thread(reads, NULL);
	await_value(&inside, 6);
	CHECK_EQ(try_elsewhere(), EBUSY);
	set_value(&let_go, 1);
	for (int i = 0; i < 6; i++)
		join_thread(threads[i]);
	CHECK_EQ(pthread_rwlock_wrlock(&lock), 0);
	CHECK_EQ(try_elsewhere(), EBUSY * 1000 + EBUSY);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(try_elsewhere(), 0);
	/* Recursive reading is allowed. */
	CHECK_EQ(pthread_rwlock_rdlock(&lock), 0);
	CHECK_EQ(pthread_rwlock_rdlock(&lock), 0);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(try_elsewhere(), EBUSY);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(try_elsewhere(), 0);
	CHECK_EQ(pthread_rwlock_destroy(&lock), 0);
	return 0;
}
