/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A broadcast reaches every waiter once, whatever else ends waits at the same time: deadlines by
 * both clocks, cancellation, signals; full threads and kernel threads; plain, recursive, robust
 * and inheriting mutexes.
 */
#define _GNU_SOURCE
#include "own_stack.h"

enum { THREADS = 40, ROUNDS = 60, KINDS = 4 };

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t go, all_here;
	int here, generation, gone;
} it[KINDS];

static void *waits(void *arg)
{
	int number = (int)(intptr_t)arg, kind = number % KINDS;
	CHECK_EQ(pthread_mutex_lock(&it[kind].mutex), 0);
	for (int round = 0; round < ROUNDS; round++) {
		it[kind].here++;
		CHECK_EQ(pthread_cond_signal(&it[kind].all_here), 0);
		while (it[kind].generation == round) {
			struct timespec at = moment(CLOCK_MONOTONIC, 1 + (number + round) % 3);
			int error = number / KINDS % 2
				? pthread_cond_clockwait(&it[kind].go, &it[kind].mutex, CLOCK_MONOTONIC, &at)
				: pthread_cond_wait(&it[kind].go, &it[kind].mutex);
			CHECK(error == 0 || error == ETIMEDOUT);
		}
	}
	CHECK_EQ(pthread_mutex_unlock(&it[kind].mutex), 0);
	return NULL;
}

/* Waits until it is cancelled: by then it has the mutex again. */
static void leaves(void *arg)
{
	int kind = (int)(intptr_t)arg;
	it[kind].gone++;
	CHECK_EQ(pthread_mutex_unlock(&it[kind].mutex), 0);
}

static void *waits_for_cancel(void *arg)
{
	int kind = (int)(intptr_t)arg;
	CHECK_EQ(pthread_mutex_lock(&it[kind].mutex), 0);
	pthread_cleanup_push(leaves, arg);
	for (;;)
		CHECK_EQ(pthread_cond_wait(&it[kind].go, &it[kind].mutex), 0);
	pthread_cleanup_pop(0);
	return NULL;
}

static void prepare(int kind)
{
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	if (kind == 1)
		pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	if (kind == 2)
		pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (kind == 3)
		pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	CHECK_EQ(pthread_mutex_init(&it[kind].mutex, &attr), 0);
	CHECK_EQ(pthread_cond_init(&it[kind].go, NULL), 0);
	CHECK_EQ(pthread_cond_init(&it[kind].all_here, NULL), 0);
}

/* One in five is a kernel thread everywhere. */
static pthread_t start(int number)
{
	void *arg = (void *)(intptr_t)number;
	return number % 5 == 4 ? start_on_own_stack(waits, arg) : start_thread(waits, arg);
}

static void lead(int kind, int round)
{
	CHECK_EQ(pthread_mutex_lock(&it[kind].mutex), 0);
	while (it[kind].here != THREADS / KINDS)
		CHECK_EQ(pthread_cond_wait(&it[kind].all_here, &it[kind].mutex), 0);
	it[kind].here = 0;
	it[kind].generation++;
	/* Held, held for longer than the deadlines, or not held. */
	if (round % 3 != 0)
		CHECK_EQ(pthread_cond_broadcast(&it[kind].go), 0);
	if (round % 6 == 1)
		sleep_ms(4);
	CHECK_EQ(pthread_mutex_unlock(&it[kind].mutex), 0);
	if (round % 3 == 0)
		CHECK_EQ(pthread_cond_broadcast(&it[kind].go), 0);
}

/* Who was reached by a broadcast has not timed out, however long the mutex was held after it. */
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reached = PTHREAD_COND_INITIALIZER;
static struct timespec earliest;
static long brief_ms;
static int waiting, errors;

static void *waits_briefly(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&held), 0);
	struct timespec at = moment(CLOCK_REALTIME, brief_ms);
	if (waiting++ == 0)
		earliest = at;
	errors += pthread_cond_timedwait(&reached, &held, &at) != 0;
	CHECK_EQ(pthread_mutex_unlock(&held), 0);
	return arg;
}

static int is_before(const struct timespec *one, const struct timespec *other)
{
	return one->tv_sec != other->tv_sec ? one->tv_sec < other->tv_sec
					    : one->tv_nsec < other->tv_nsec;
}

/* Whether all were there in time; else nothing can be said of them. */
static int hold_on(void)
{
	pthread_t threads[5];
	int is_in_time = 0;
	waiting = errors = 0;
	for (int i = 0; i < 5; i++)
		threads[i] = start_thread(waits_briefly, NULL);
	for (int all = 0; !all;) {
		sleep_ms(1);
		CHECK_EQ(pthread_mutex_lock(&held), 0);
		all = waiting == 5;
		if (all) {
			CHECK_EQ(pthread_cond_broadcast(&reached), 0);
			struct timespec now = moment(CLOCK_REALTIME, 0);
			is_in_time = is_before(&now, &earliest);
			sleep_ms(brief_ms + 100);
		}
		CHECK_EQ(pthread_mutex_unlock(&held), 0);
	}
	for (int i = 0; i < 5; i++)
		join_thread(threads[i]);
	CHECK(errors == 0 || !is_in_time);
	return is_in_time;
}

int main(void)
{
	pthread_t threads[THREADS], leaving[KINDS];
	for (int kind = 0; kind < KINDS; kind++)
		prepare(kind);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start(i);
	for (int kind = 0; kind < KINDS; kind++)
		leaving[kind] = start_thread(waits_for_cancel, (void *)(intptr_t)kind);
	for (int round = 0; round < ROUNDS; round++) {
		for (int kind = 0; kind < KINDS; kind++)
			lead(kind, round);
		if (round == ROUNDS / 2)
			for (int kind = 0; kind < KINDS; kind++)
				CHECK_EQ(pthread_cancel(leaving[kind]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	for (int kind = 0; kind < KINDS; kind++) {
		CHECK(join_thread(leaving[kind]) == PTHREAD_CANCELED);
		CHECK_EQ(it[kind].gone, 1);
		CHECK_EQ(pthread_mutex_destroy(&it[kind].mutex), 0);
		CHECK_EQ(pthread_cond_destroy(&it[kind].go), 0);
	}
	for (brief_ms = 200; !hold_on(); brief_ms *= 2)
		;
	return 0;
}
