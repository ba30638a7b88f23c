/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * No wake is lost between full threads and kernel threads: every primitive, both kinds at once.
 * A thread with a stack of the program's own is a kernel thread everywhere.
 */
#define _GNU_SOURCE
#include "own_stack.h"

#define EACH 6
#define ROUNDS 3000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t writers_first = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static sem_t items;
static long queued, made, taken, counted, written[2], guarded, serial;

static void *producer(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&lock);
		while (queued == 4)
			pthread_cond_wait(&not_full, &lock);
		queued++;
		made++;
		pthread_cond_signal(&not_empty);
		pthread_mutex_unlock(&lock);
		CHECK_EQ(sem_post(&items), 0);
	}
	return arg;
}

static void *consumer(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		while (sem_wait(&items) != 0)
			CHECK_EQ(errno, EINTR);
		pthread_mutex_lock(&lock);
		while (queued == 0)
			pthread_cond_wait(&not_empty, &lock);
		queued--;
		taken++;
		if (i % 16 == 0)
			pthread_cond_broadcast(&not_full);
		else
			pthread_cond_signal(&not_full);
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

static void *reader_writer(void *arg)
{
	pthread_rwlock_t *locks[2] = { &rwlock, &writers_first };
	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < 2; k++) {
			if (i % 4 == 0) {
				CHECK_EQ(pthread_rwlock_wrlock(locks[k]), 0);
				written[k]++;
				if (i % 64 == 0)
					sched_yield();
			} else {
				CHECK_EQ(pthread_rwlock_rdlock(locks[k]), 0);
				long before = written[k];
				if (i % 33 == 0)
					sched_yield();
				CHECK_EQ(written[k], before);
			}
			CHECK_EQ(pthread_rwlock_unlock(locks[k]), 0);
		}
		if (i % 10 == 0) {
			struct timespec at = moment(CLOCK_REALTIME, i % 20 ? 1 : 0);
			int error = pthread_rwlock_timedwrlock(&writers_first, &at);
			if (error == 0)
				CHECK_EQ(pthread_rwlock_unlock(&writers_first), 0);
			else
				CHECK_EQ(error, ETIMEDOUT);
		}
	}
	return arg;
}

static void *counter(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&recursive);
		pthread_mutex_lock(&recursive);
		counted++;
		if (i % 50 == 0)
			sched_yield();
		pthread_mutex_unlock(&recursive);
		pthread_mutex_unlock(&recursive);
		pthread_spin_lock(&spin);
		guarded++;
		pthread_spin_unlock(&spin);
	}
	return arg;
}

static void *meets(void *arg)
{
	for (int i = 0; i < ROUNDS / 10; i++) {
		int last = pthread_barrier_wait(&barrier);
		CHECK(last == 0 || last == PTHREAD_BARRIER_SERIAL_THREAD);
		if (last)
			__atomic_add_fetch(&serial, 1, __ATOMIC_SEQ_CST);
	}
	return arg;
}

/* Half of them are kernel threads. */
static int start_both(pthread_t *threads, void *(*start)(void *))
{
	for (int i = 0; i < EACH; i++)
		threads[i] = i % 2 ? start_on_own_stack(start, NULL) : start_thread(start, NULL);
	return EACH;
}

int main(void)
{
	void *(*starts[])(void *) = { producer, consumer, reader_writer, counter, meets };
	pthread_t threads[5 * EACH];
	int count = 0;
	CHECK_EQ(sem_init(&items, 0, 0), 0);
	CHECK_EQ(pthread_barrier_init(&barrier, NULL, EACH), 0);
	CHECK_EQ(pthread_spin_init(&spin, 0), 0);
	for (int i = 0; i < 5; i++)
		count += start_both(threads + count, starts[i]);
	for (int i = 0; i < count; i++)
		join_thread(threads[i]);
	CHECK_EQ(made, EACH * ROUNDS);
	CHECK_EQ(taken, made);
	CHECK_EQ(queued, 0);
	CHECK_EQ(counted, EACH * ROUNDS);
	CHECK_EQ(guarded, EACH * ROUNDS);
	CHECK_EQ(written[0], EACH * ((ROUNDS + 3) / 4));
	CHECK_EQ(serial, ROUNDS / 10);
	CHECK_EQ(pthread_barrier_destroy(&barrier), 0);
	CHECK_EQ(sem_destroy(&items), 0);
	return 0;
}
