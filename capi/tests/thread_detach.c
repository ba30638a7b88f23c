/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A detached thread runs to its end; detaching one that has ended releases it.
 */
#define _GNU_SOURCE
#include "check.h"

static int ended;

static void *count(void *arg)
{
	add_value(&ended, 1);
	return arg;
}

static void *detach_self(void *arg)
{
	CHECK_EQ(pthread_detach(pthread_self()), 0);
	add_value(&ended, 1);
	return arg;
}

int main(void)
{
	for (int i = 0; i < 100; i++)
		CHECK_EQ(pthread_detach(start_thread(count, NULL)), 0);
	await_value(&ended, 100);
	start_thread(detach_self, NULL);
	await_value(&ended, 101);
	pthread_t thread = start_thread(count, NULL);
	await_value(&ended, 102);
	sleep_ms(5);
	CHECK_EQ(pthread_detach(thread), 0);
	return 0;
}
