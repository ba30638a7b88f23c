/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Mutexes that are shared with other processes, or robust, or both, and inherit priority or have a
 * ceiling: threads and a child that want them at once have them one after the other.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { THREADS = 4, ROUNDS = 300 };

struct shared {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	long count, turn;
};

static void count_up(struct shared *it)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (i % 3 == 0) {
			struct timespec late;
			clock_gettime(CLOCK_REALTIME, &late);
			late.tv_sec += 60;
			CHECK_EQ(pthread_mutex_timedlock(&it->mutex, &late), 0);
		} else if (i % 3 == 1) {
			int error;
			while ((error = pthread_mutex_trylock(&it->mutex)) == EBUSY)
				sched_yield();
			CHECK_EQ(error, 0);
		} else {
			CHECK_EQ(pthread_mutex_lock(&it->mutex), 0);
		}
		long before = it->count;
		if (i % 8 == 0)
			sched_yield();
		it->count = before + 1;
		CHECK_EQ(pthread_mutex_unlock(&it->mutex), 0);
	}
}

static void *counts(void *it)
{
	count_up(it);
	return NULL;
}

static void *answers(void *argument)
{
	struct shared *it = argument;
	CHECK_EQ(pthread_mutex_lock(&it->mutex), 0);
	for (int i = 0; i < 20; i++) {
		while (it->turn % 2 == 0)
			CHECK_EQ(pthread_cond_wait(&it->changed, &it->mutex), 0);
		it->turn++;
		CHECK_EQ(pthread_cond_broadcast(&it->changed), 0);
	}
	CHECK_EQ(pthread_mutex_unlock(&it->mutex), 0);
	return NULL;
}

static void *leaves(void *argument)
{
	struct shared *it = argument;
	CHECK_EQ(pthread_mutex_lock(&it->mutex), 0);
	return NULL;
}

static void try(int protocol, int is_shared, int is_robust)
{
	struct shared *it = mmap(NULL, sizeof *it, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(it != MAP_FAILED);
	pthread_mutexattr_t how;
	CHECK_EQ(pthread_mutexattr_init(&how), 0);
	CHECK_EQ(pthread_mutexattr_setprotocol(&how, protocol), 0);
	if (is_shared)
		CHECK_EQ(pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED), 0);
	if (is_robust)
		CHECK_EQ(pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST), 0);
	CHECK_EQ(pthread_mutex_init(&it->mutex, &how), 0);
	int told;
	CHECK_EQ(pthread_mutexattr_getprotocol(&how, &told), 0);
	CHECK_EQ(told, protocol);
	CHECK_EQ(pthread_mutexattr_destroy(&how), 0);
	pthread_condattr_t where;
	CHECK_EQ(pthread_condattr_init(&where), 0);
	if (is_shared)
		CHECK_EQ(pthread_condattr_setpshared(&where, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_cond_init(&it->changed, &where), 0);

	pid_t child = is_shared ? fork() : 0;
	if (is_shared && child == 0) {
		count_up(it);
		_exit(0);
	}
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(counts, it);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	if (is_shared) {
		int status;
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK_EQ(status, 0);
	}
	CHECK_EQ(it->count, (THREADS + !!is_shared) * ROUNDS);

	threads[0] = start_thread(answers, it);
	CHECK_EQ(pthread_mutex_lock(&it->mutex), 0);
	for (int i = 0; i < 20; i++) {
		while (it->turn % 2 == 1)
			CHECK_EQ(pthread_cond_wait(&it->changed, &it->mutex), 0);
		it->turn++;
		CHECK_EQ(pthread_cond_broadcast(&it->changed), 0);
	}
	CHECK_EQ(pthread_mutex_unlock(&it->mutex), 0);
	join_thread(threads[0]);

	if (is_robust) {
		join_thread(start_thread(leaves, it));
		CHECK_EQ(pthread_mutex_lock(&it->mutex), EOWNERDEAD);
		CHECK_EQ(pthread_mutex_consistent(&it->mutex), 0);
		CHECK_EQ(pthread_mutex_unlock(&it->mutex), 0);
	}
	CHECK_EQ(pthread_mutex_destroy(&it->mutex), 0);
	CHECK_EQ(munmap(it, sizeof *it), 0);
}

int main(void)
{
	for (int kind = 1; kind < 4; kind++)
		try(PTHREAD_PRIO_INHERIT, kind & 1, kind & 2);
	return 0;
}
