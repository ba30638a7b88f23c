/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread whose stack is the program's, and the main thread, is cancelled while it waits for a
 * condition variable or for the end of a thread, and not while it does not want to be; who waited
 * holds the mutex then, and the other thread can be joined.
 */
#define _GNU_SOURCE
#include "own_stack.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int inside, goes, cleaned, is_on;
static pthread_t joined;

static void unlock(void *arg)
{
	add_value(&cleaned, 1);
	CHECK_EQ(pthread_mutex_unlock(arg), 0);
}

static void clean(void *arg)
{
	(void)arg;
	add_value(&cleaned, 1);
}

static void wait_for_condition(void)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	pthread_cleanup_push(unlock, &mutex);
	set_value(&inside, 1);
	while (!goes)
		CHECK_EQ(pthread_cond_wait(&cond, &mutex), 0);
	pthread_cleanup_pop(1);
}

static void *waits(void *arg)
{
	wait_for_condition();
	return arg;
}

static void *waits_until(void *arg)
{
	struct timespec until = moment(CLOCK_REALTIME, 60000);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	pthread_cleanup_push(unlock, &mutex);
	set_value(&inside, 1);
	while (!goes)
		CHECK_EQ(pthread_cond_timedwait(&cond, &mutex, &until), 0);
	pthread_cleanup_pop(1);
	return arg;
}

static void *joins(void *arg)
{
	void *result;
	pthread_cleanup_push(clean, NULL);
	set_value(&inside, 1);
	CHECK_EQ(pthread_join(joined, &result), 0);
	pthread_cleanup_pop(1);
	return arg;
}

static void *is_disabled(void *arg)
{
	int old;
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	wait_for_condition();
	set_value(&is_on, 1);
	CHECK_EQ(pthread_join(joined, NULL), 0);
	set_value(&is_on, 2);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
	goes = 0;
	wait_for_condition();
	set_value(&is_on, 3);
	return arg;
}

static void *ends_later(void *arg)
{
	while (!__atomic_load_n((int *)arg, __ATOMIC_SEQ_CST))
		sleep_ms(1);
	return NULL;
}

static pthread_t started(void *(*function)(void *))
{
	set_value(&inside, 0);
	set_value(&cleaned, 0);
	pthread_t thread = start_on_own_stack(function, NULL);
	await_value(&inside, 1);
	return thread;
}

static void cancel(void *(*function)(void *), long ms)
{
	pthread_t thread = started(function);
	sleep_ms(ms);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(cleaned, 1);
	CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void *cancels_main(void *main_thread)
{
	await_value(&inside, 1);
	sleep_ms(5);
	CHECK_EQ(pthread_cancel(*(pthread_t *)main_thread), 0);
	await_value(&cleaned, 1);
	_exit(0);
}

int main(void)
{
	int may_end = 0;
	pthread_t self = pthread_self();
	joined = start_thread(ends_later, &may_end);
	for (int i = 0; i < 20; i++) {
		cancel(waits, i % 3);
		cancel(waits_until, i % 3);
		cancel(joins, i % 3);
	}
	set_value(&may_end, 1);
	join_thread(joined);

	set_value(&may_end, 0);
	joined = start_thread(ends_later, &may_end);
	pthread_t thread = started(is_disabled);
	CHECK_EQ(pthread_cancel(thread), 0);
	sleep_ms(10);
	CHECK_EQ(__atomic_load_n(&cleaned, __ATOMIC_SEQ_CST), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	goes = 1;
	CHECK_EQ(pthread_cond_signal(&cond), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	await_value(&is_on, 1);
	sleep_ms(10);
	CHECK_EQ(__atomic_load_n(&is_on, __ATOMIC_SEQ_CST), 1);
	set_value(&may_end, 1);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(is_on, 2);

	goes = 0;
	set_value(&inside, 0);
	set_value(&cleaned, 0);
	start_thread(cancels_main, &self);
	wait_for_condition();
	return 1;
}
