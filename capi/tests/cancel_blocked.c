/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that is blocked when it is cancelled ends with PTHREAD_CANCELED.
 */
#define _GNU_SOURCE
#include "check.h"

static void *sleeps(void *arg)
{
	sleep(100);
	return arg;
}

int main(void)
{
	long start = now_ms();
	pthread_t thread = start_thread(sleeps, NULL);
	sleep_ms(5);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK(now_ms() - start < 100000);
	return 0;
}
