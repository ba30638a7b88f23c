/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Asynchronous cancellation ends a thread in the middle of what it computes; its cleanup handlers
 * and the destructors of its values run. Disabled, or of the deferred type, it does not.
 */
#define _GNU_SOURCE
#include "check.h"

static int ready, asked, cleaned, destroyed, rounds;
static pthread_key_t key;
static volatile unsigned long turns;

static void clean(void *arg)
{
	add_value(&cleaned, (int)(intptr_t)arg);
}

static void destroy(void *value)
{
	add_value(&destroyed, (int)(intptr_t)value);
}

static void spin(void)
{
	for (;;)
		turns++;
}

static void *computes(void *arg)
{
	int old = -1;
	CHECK_EQ(pthread_setspecific(key, (void *)1), 0);
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_DEFERRED);
	pthread_cleanup_push(clean, (void *)1);
	pthread_cleanup_push(clean, (void *)10);
	set_value(&ready, 1);
	spin();
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return arg;
}

/* Not cancelled while that is disabled or deferred; then at once. */
static void *computes_for_long(void *arg)
{
	int old;
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	set_value(&ready, 1);
	while (!__atomic_load_n(&asked, __ATOMIC_SEQ_CST))
		rounds++;
	long end = now_ms() + 30;
	while (now_ms() < end)
		rounds++;
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old), 0);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
	for (end += 30; now_ms() < end;)
		rounds++;
	set_value(&ready, 2);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	spin();
	return arg;
}

/* Enabled again while a request is pending: it is acted upon. */
static void *enables(void *arg)
{
	int old;
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	set_value(&ready, 1);
	await_value(&ready, 2);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	spin();
	return arg;
}

static void *cancels_itself(void *arg)
{
	int old;
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	pthread_cleanup_push(clean, (void *)100);
	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	spin();
	pthread_cleanup_pop(0);
	return arg;
}

static void cancel_when_ready(pthread_t thread)
{
	await_value(&ready, 1);
	CHECK_EQ(pthread_cancel(thread), 0);
	set_value(&asked, 1);
}

int main(void)
{
	enum { THREADS = 6 };
	pthread_t threads[THREADS];
	CHECK_EQ(pthread_key_create(&key, destroy), 0);
	for (int i = 0; i < THREADS; i++) {
		set_value(&ready, 0);
		threads[i] = start_thread(computes, NULL);
		await_value(&ready, 1);
		if (i % 2)
			sleep_ms(3);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_cancel(threads[i]), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(join_thread(threads[i]) == PTHREAD_CANCELED);
	CHECK_EQ(cleaned, 11 * THREADS);
	CHECK_EQ(destroyed, THREADS);

	set_value(&ready, 0);
	pthread_t thread = start_thread(computes_for_long, NULL);
	cancel_when_ready(thread);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(ready, 2);

	set_value(&ready, 0);
	thread = start_thread(enables, NULL);
	cancel_when_ready(thread);
	set_value(&ready, 2);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);

	cleaned = 0;
	CHECK(join_thread(start_thread(cancels_itself, NULL)) == PTHREAD_CANCELED);
	CHECK_EQ(cleaned, 100);
	return 0;
}
