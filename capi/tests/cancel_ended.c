/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Cancelling a thread that has ended but is not joined does no harm and does not change its
 * result.
 */
#define _GNU_SOURCE
#include "check.h"

static int ended;

static void *ends(void *arg)
{
	set_value(&ended, 1);
	return arg;
}

int main(void)
{
	pthread_t thread = start_thread(ends, (void *)8);
	await_value(&ended, 1);
	sleep_ms(10);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ((intptr_t)join_thread(thread), 8);
	return 0;
}
