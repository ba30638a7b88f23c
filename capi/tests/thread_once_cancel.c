/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A routine of a once that is cancelled has not run: the next caller runs it.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int entered, finished;

static void initialise(void)
{
	if (add_value(&entered, 1) == 1)
		sleep(100);
	add_value(&finished, 1);
}

static void *call(void *arg)
{
	CHECK_EQ(pthread_once(&once, initialise), 0);
	return arg;
}

int main(void)
{
	pthread_t first = start_thread(call, NULL);
	await_value(&entered, 1);
	pthread_t second = start_thread(call, (void *)2);
	sleep_ms(10);
	CHECK_EQ(pthread_cancel(first), 0);
	CHECK(join_thread(first) == PTHREAD_CANCELED);
	CHECK_EQ((intptr_t)join_thread(second), 2);
	CHECK_EQ(entered, 2);
	CHECK_EQ(finished, 1);
	return 0;
}
