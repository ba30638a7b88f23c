/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A destructor runs with the value when the thread returns, exits or is cancelled, and not for
 * NULL.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_key_t key, unset, plain;
static int destroyed;

static void destroy(void *value)
{
	/* The key already reads NULL in its destructor. */
	CHECK(pthread_getspecific(key) == NULL);
	add_value(&destroyed, (int)(intptr_t)value);
}

static void never(void *value)
{
	(void)value;
	CHECK(0);
}

static void *ends(void *arg)
{
	CHECK_EQ(pthread_setspecific(key, arg), 0);
	CHECK_EQ(pthread_setspecific(plain, arg), 0);
	CHECK_EQ(pthread_setspecific(unset, arg), 0);
	CHECK_EQ(pthread_setspecific(unset, NULL), 0);
	if (arg == (void *)10)
		pthread_exit(NULL);
	if (arg == (void *)100)
		sleep(100);
	return NULL;
}

int main(void)
{
	CHECK_EQ(pthread_key_create(&key, destroy), 0);
	CHECK_EQ(pthread_key_create(&unset, never), 0);
	CHECK_EQ(pthread_key_create(&plain, NULL), 0);
	join_thread(start_thread(ends, (void *)1));
	CHECK_EQ(destroyed, 1);
	join_thread(start_thread(ends, (void *)10));
	CHECK_EQ(destroyed, 11);
	pthread_t thread = start_thread(ends, (void *)100);
	sleep_ms(5);
	CHECK_EQ(pthread_cancel(thread), 0);
	join_thread(thread);
	CHECK_EQ(destroyed, 111);
	return 0;
}
