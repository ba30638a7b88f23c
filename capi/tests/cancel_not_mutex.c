/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Locking a mutex, a read-write lock, a spin lock and waiting at a barrier are no cancellation
 * points.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static int pending, serial;

static void wait_at_barrier(void)
{
	int result = pthread_barrier_wait(&barrier);
	CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
	add_value(&serial, result == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void *locks(void *arg)
{
	await_value(&pending, 1);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(pthread_rwlock_rdlock(&lock), 0);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	wait_at_barrier();
	*(int *)arg = 1;
	pthread_testcancel();
	return NULL;
}

int main(void)
{
	int reached = 0;
	CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_rwlock_wrlock(&lock), 0);
	pthread_t thread = start_thread(locks, &reached);
	CHECK_EQ(pthread_cancel(thread), 0);
	set_value(&pending, 1);
	sleep_ms(10);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	sleep_ms(5);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	sleep_ms(5);
	wait_at_barrier();
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(serial, 1);
	CHECK_EQ(reached, 1);
	return 0;
}
