/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A created thread runs its function with its argument, and join returns its result.
 */
#define _GNU_SOURCE
#include "check.h"

static void *doubled(void *arg)
{
	return (void *)((intptr_t)arg * 2);
}

int main(void)
{
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, doubled, (void *)21), 0);
	void *result = NULL;
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK_EQ((intptr_t)result, 42);
	/* The result may be left alone. */
	thread = start_thread(doubled, (void *)1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return 0;
}
