/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Cancellation runs the handlers, in which the thread may still block but is not cancelled
 * again.
 */
#define _GNU_SOURCE
#include "check.h"

static char order[8];

static void note(void *arg)
{
	pthread_testcancel();
	sleep_ms(1);
	strcat(order, arg);
}

static void *blocks(void *arg)
{
	pthread_cleanup_push(note, "1");
	pthread_cleanup_push(note, "2");
	sleep(100);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return arg;
}

int main(void)
{
	pthread_t thread = start_thread(blocks, NULL);
	sleep_ms(5);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(strcmp(order, "21"), 0);
	return 0;
}
