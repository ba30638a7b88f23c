/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that is cancelled before it has run ends at its first cancellation point.
 */
#define _GNU_SOURCE
#include "check.h"

static void *tests(void *arg)
{
	for (;;) {
		pthread_testcancel();
		sched_yield();
	}
	return arg;
}

int main(void)
{
	for (int i = 0; i < 20; i++) {
		pthread_t thread = start_thread(tests, NULL);
		CHECK_EQ(pthread_cancel(thread), 0);
		CHECK(join_thread(thread) == PTHREAD_CANCELED);
	}
	return 0;
}
