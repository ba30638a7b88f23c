/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that is detached, by itself or by another one, while somebody joins it already: the
 * join ends with it, as in the C library.
 */
#define _GNU_SOURCE
#include "check.h"

static void *detaches_itself(void *arg)
{
	usleep(20000);
	CHECK_EQ(pthread_detach(pthread_self()), 0);
	return arg;
}

static void *ends_later(void *arg)
{
	usleep(40000);
	return arg;
}

static void *detaches(void *thread)
{
	usleep(20000);
	CHECK_EQ(pthread_detach(*(pthread_t *)thread), 0);
	return NULL;
}

static void *joins(void *arg)
{
	pthread_t thread = start_thread(detaches_itself, &thread);
	void *result = NULL;

	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == &thread);
	thread = start_thread(ends_later, &thread);
	pthread_t other = start_thread(detaches, &thread);
	result = NULL;
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == &thread);
	join_thread(other);
	return arg;
}

int main(void)
{
	joins(NULL);
	join_thread(start_thread(joins, NULL));
	return 0;
}
