/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The threads of C11: thrd_*, mtx_*, cnd_*, tss_* and call_once, beside pthreads, whose objects
 * the C library lets them share.
 */
#define _GNU_SOURCE
#include "check.h"
#include <threads.h>

#define THREADS 16
#define ROUNDS 200

static mtx_t plain, timed, recursive;
static cnd_t turned;
static tss_t key;
static once_flag once = ONCE_FLAG_INIT;
static int onces, destroyed, turn, shared;
static thread_local int own;

static void count_once(void)
{
	thrd_sleep(&(struct timespec){ 0, 2000000 }, NULL);
	onces++;
}

static void destroy(void *value)
{
	add_value(&destroyed, (int)(intptr_t)value);
}

static int works(void *arg)
{
	int number = (int)(intptr_t)arg;

	call_once(&once, count_once);
	CHECK_EQ(onces, 1);
	CHECK_EQ(tss_set(key, (void *)(intptr_t)1), thrd_success);
	CHECK_EQ(own, 0);
	own = number;
	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(mtx_lock(&plain), thrd_success);
		int seen = shared;
		if (i % 16 == 0)
			thrd_yield();
		shared = seen + 1;
		CHECK_EQ(mtx_unlock(&plain), thrd_success);
	}
	CHECK_EQ(mtx_lock(&recursive), thrd_success);
	CHECK_EQ(mtx_lock(&recursive), thrd_success);
	CHECK_EQ(mtx_unlock(&recursive), thrd_success);
	CHECK_EQ(mtx_unlock(&recursive), thrd_success);
	CHECK_EQ(mtx_lock(&plain), thrd_success);
	while (turn != number)
		CHECK_EQ(cnd_wait(&turned, &plain), thrd_success);
	turn++;
	CHECK_EQ(cnd_broadcast(&turned), thrd_success);
	CHECK_EQ(mtx_unlock(&plain), thrd_success);
	CHECK_EQ(own, number);
	CHECK_EQ((intptr_t)tss_get(key), 1);
	if (number % 2)
		thrd_exit(100 + number);
	return 100 + number;
}

static int holds(void *arg)
{
	CHECK_EQ(mtx_lock(&timed), thrd_success);
	set_value(arg, 1);
	await_value(arg, 2);
	CHECK_EQ(mtx_unlock(&timed), thrd_success);
	return 0;
}

static void times_out(void)
{
	int step = 0;
	thrd_t thread;
	struct timespec soon;

	CHECK_EQ(thrd_create(&thread, holds, &step), thrd_success);
	await_value(&step, 1);
	CHECK_EQ(mtx_trylock(&timed), thrd_busy);
	soon = moment(CLOCK_REALTIME, 20);
	CHECK_EQ(mtx_timedlock(&timed, &soon), thrd_timedout);
	set_value(&step, 2);
	soon = moment(CLOCK_REALTIME, 40000);
	CHECK_EQ(mtx_timedlock(&timed, &soon), thrd_success);
	soon = moment(CLOCK_REALTIME, 20);
	CHECK_EQ(cnd_timedwait(&turned, &timed, &soon), thrd_timedout);
	CHECK_EQ(mtx_unlock(&timed), thrd_success);
	CHECK_EQ(thrd_join(thread, NULL), thrd_success);
}

static int detaches(void *arg)
{
	CHECK_EQ(thrd_detach(thrd_current()), thrd_success);
	add_value(arg, 1);
	return 0;
}

/* A pthread and a C11 thread are one kind of thread. */
static void *as_pthread(void *arg)
{
	CHECK(thrd_equal(thrd_current(), pthread_self()));
	return (void *)(intptr_t)works(arg);
}

int main(void)
{
	thrd_t threads[THREADS];
	int gone = 0;

	CHECK_EQ(mtx_init(&plain, mtx_plain), thrd_success);
	CHECK_EQ(mtx_init(&timed, mtx_timed), thrd_success);
	CHECK_EQ(mtx_init(&recursive, mtx_timed | mtx_recursive), thrd_success);
	CHECK_EQ(cnd_init(&turned), thrd_success);
	CHECK_EQ(tss_create(&key, destroy), thrd_success);
	for (intptr_t i = 0; i < THREADS - 1; i++)
		CHECK_EQ(thrd_create(&threads[i], works, (void *)i), thrd_success);
	pthread_t last = start_thread(as_pthread, (void *)(intptr_t)(THREADS - 1));
	for (int i = 0; i < THREADS - 1; i++) {
		int result;
		CHECK_EQ(thrd_join(threads[i], &result), thrd_success);
		CHECK_EQ(result, 100 + i);
	}
	CHECK_EQ((intptr_t)join_thread(last), 100 + THREADS - 1);
	CHECK_EQ(shared, THREADS * ROUNDS);
	CHECK_EQ(destroyed, THREADS);
	CHECK_EQ(onces, 1);
	times_out();
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(thrd_create(&threads[0], detaches, &gone), thrd_success);
	await_value(&gone, THREADS);
	/* A sleep that has ended leaves nothing. */
	CHECK_EQ(thrd_sleep(&(struct timespec){ 0, 1000000 }, NULL), 0);
	tss_delete(key);
	cnd_destroy(&turned);
	mtx_destroy(&plain);
	mtx_destroy(&timed);
	mtx_destroy(&recursive);
	return 0;
}
