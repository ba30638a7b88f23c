/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Cells whose members all do the same: locks that they want at once, a barrier that they meet at,
 * time that passes, threads and processes that end.
 *
 * Invariant: as in cells.h. What a lock guards adds up; who waits for time is not woken before.
 */
#ifndef MEET_H
#define MEET_H

#include "cells.h"

/* Holds a lock for long enough that somebody has to wait for it. */
static void hold(struct cell *cell, unsigned long *random)
{
	long before = cell->turns;
	if (below(random, 4) == 0)
		sched_yield();
	dawdle(cell, random);
	CHECK_EQ(cell->turns, before);
}

static void lock_mutexes(struct cell *cell, struct member *me, unsigned long *random)
{
	long turns = 0, woken = 0;
	while (!is_closing(cell)) {
		doing(me, "waits for the mutex");
		if (pthread_mutex_trylock(&cell->mutex) != 0) {
			struct timespec at = soon(CLOCK_REALTIME, random);
			int is_timed = below(random, 8) == 0;
			int error = is_timed ? pthread_mutex_timedlock(&cell->mutex, &at)
					     : pthread_mutex_lock(&cell->mutex);
			if (is_timed && error == ETIMEDOUT) {
				is_past(CLOCK_REALTIME, &at);
				continue;
			}
			CHECK_EQ(error, 0);
			woken++;
		}
		hold(cell, random);
		cell->turns++;
		CHECK_EQ(pthread_mutex_unlock(&cell->mutex), 0);
		turns++;
	}
	count_in(&cell->counted, turns);
	count_in(&cell->woken, woken);
}

static void lock_rwlocks(struct cell *cell, struct member *me, unsigned long *random)
{
	long turns = 0, woken = 0;
	while (!is_closing(cell)) {
		int writes = below(random, 3) == 0;
		doing(me, writes ? "waits to write" : "waits to read");
		if (writes && pthread_rwlock_trywrlock(&cell->rwlock) != 0) {
			CHECK_EQ(pthread_rwlock_wrlock(&cell->rwlock), 0);
			woken++;
		} else if (!writes && pthread_rwlock_tryrdlock(&cell->rwlock) != 0) {
			CHECK_EQ(pthread_rwlock_rdlock(&cell->rwlock), 0);
			woken++;
		}
		hold(cell, random);
		cell->turns += writes;
		turns += writes;
		CHECK_EQ(pthread_rwlock_unlock(&cell->rwlock), 0);
		dawdle(cell, random);
	}
	count_in(&cell->counted, turns);
	count_in(&cell->woken, woken);
}

/* All learn at the same meeting that it was the last: who came last there has asked. */
static void meet(struct cell *cell, struct member *me, unsigned long *random)
{
	for (int is_last = 0; !is_last;) {
		dawdle(cell, random);
		doing(me, "waits at the barrier");
		int first = pthread_barrier_wait(&cell->barrier);
		CHECK(first == 0 || first == PTHREAD_BARRIER_SERIAL_THREAD);
		if (first) {
			cell->turns++;
			count_in(&cell->woken, PARTIES - 1);
			__atomic_store_n(&cell->left, is_closing(cell), __ATOMIC_SEQ_CST);
		}
		first = pthread_barrier_wait(&cell->barrier);
		if (first)
			count_in(&cell->woken, PARTIES - 1);
		is_last = __atomic_load_n(&cell->left, __ATOMIC_SEQ_CST);
		count_in(&cell->counted, first != 0);
	}
}

/* Everybody waits for the others' turn: one broadcast wakes all. */
static void take_turns(struct cell *cell, struct member *me, unsigned long *random)
{
	CHECK_EQ(pthread_mutex_lock(&cell->mutex), 0);
	while (cell->left == 0) {
		long turn = cell->turns;
		if (++cell->last == cell->count) {
			cell->last = 0;
			cell->turns++;
			cell->counted++;
			cell->left = is_closing(cell);
			cell->woken += cell->count - 1;
			CHECK_EQ(pthread_cond_broadcast(&cell->cond), 0);
			continue;
		}
		doing(me, "waits for the others");
		while (cell->turns == turn)
			CHECK_EQ(pthread_cond_wait(&cell->cond, &cell->mutex), 0);
		CHECK_EQ(pthread_mutex_unlock(&cell->mutex), 0);
		dawdle(cell, random);
		CHECK_EQ(pthread_mutex_lock(&cell->mutex), 0);
	}
	CHECK_EQ(pthread_mutex_unlock(&cell->mutex), 0);
}

/* One of the calls that end by time alone. */
static void wait_for_time(struct cell *cell, int which, long ns, int timer)
{
	struct timespec time = { 0, ns };
	struct timeval short_time = { 0, 1 + ns / 1000 };
	struct itimerspec at = { .it_value = time };
	struct pollfd asked = { .fd = timer, .events = POLLIN };
	int word = 0;
	sigset_t none;
	uint64_t count;
	switch (which) {
	case 0:
		CHECK_EQ(nanosleep(&time, NULL), 0);
		break;
	case 1:
		CHECK_EQ(poll(NULL, 0, 1 + ns / 1000000), 0);
		break;
	case 2:
		CHECK_EQ(select(0, NULL, NULL, NULL, &short_time), 0);
		break;
	case 3:
		CHECK_EQ(timerfd_settime(timer, 0, &at, NULL), 0);
		CHECK_EQ(read(timer, &count, sizeof(count)), sizeof(count));
		break;
	case 4:
		CHECK_EQ(timerfd_settime(timer, 0, &at, NULL), 0);
		CHECK_EQ(poll(&asked, 1, -1), 1);
		break;
	case 5:
		CHECK_EQ(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0), -1);
		CHECK_EQ(errno, ETIMEDOUT);
		break;
	case 6:
		sigemptyset(&none);
		sigaddset(&none, SIGUSR2);
		/* A process that ends may interrupt it, natively too. */
		do
			CHECK_EQ(sigtimedwait(&none, NULL, &time), -1);
		while (errno == EINTR);
		CHECK_EQ(errno, EAGAIN);
		break;
	default:
		time = moment(CLOCK_REALTIME, 1);
		CHECK_ERRNO(sem_timedwait(&cell->sem, &time), ETIMEDOUT);
	}
}

static void pass_time(struct cell *cell, struct member *me, unsigned long *random)
{
	static const char *const names[] = { "nanosleep", "poll", "select", "timerfd",
					     "poll of a timerfd", "futex", "sigtimedwait",
					     "sem_timedwait" };
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	CHECK(timer >= 0);
	while (!is_closing(cell)) {
		int which = below(random, 8);
		long ns = 1000 + below(random, 1000000);
		struct timespec until;
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += which == 7 ? 0 : ns;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		doing(me, names[which]);
		wait_for_time(cell, which, ns, timer);
		is_past(CLOCK_MONOTONIC, &until);
		count_in(&cell->woken, 1);
	}
	close(timer);
}

static void *end_soon(void *arg)
{
	unsigned long random = (unsigned long)arg | 1;
	if (below(&random, 2))
		spin_ns(below(&random, 50000));
	else if (below(&random, 4) == 0)
		sched_yield();
	return arg;
}

/* Threads of either kind are made and waited for. */
static void bear_threads(struct cell *cell, struct member *me, unsigned long *random)
{
	while (!is_closing(cell)) {
		struct member other = { .kind = thread_kind(random) };
		struct start it = { cell, &other, NULL, draw(random), 0, 0, NULL };
		pthread_attr_t attr;
		void *result;
		CHECK_EQ(pthread_attr_init(&attr), 0);
		if (other.kind == KERNEL) {
			it.stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			CHECK(it.stack != MAP_FAILED);
			CHECK_EQ(pthread_attr_setstack(&attr, it.stack, STACK_BYTES), 0);
		}
		void *arg = (void *)it.random;
		doing(me, "creates a thread");
		CHECK_EQ(pthread_create(&it.thread, &attr, end_soon, arg), 0);
		pthread_attr_destroy(&attr);
		dawdle(cell, random);
		doing(me, "waits for a thread's end");
		CHECK_EQ(pthread_join(it.thread, &result), 0);
		CHECK(result == arg);
		if (it.stack)
			munmap(it.stack, STACK_BYTES);
		count_in(&cell->woken, 1);
	}
}

static void bear_processes(struct cell *cell, struct member *me, unsigned long *random)
{
	while (!is_closing(cell)) {
		int status, code = below(random, 100);
		doing(me, "forks");
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0)
			_exit(code);
		doing(me, "waits for a process's end");
		while (waitpid(child, &status, 0) < 0)
			CHECK_EQ(errno, EINTR);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), code);
		count_in(&cell->woken, 1);
		usleep(1000);
	}
}

#endif
