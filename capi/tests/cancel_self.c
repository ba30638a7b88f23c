/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread may cancel itself; it ends at its next cancellation point.
 */
#define _GNU_SOURCE
#include "check.h"

static void *cancels_self(void *arg)
{
	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	*(int *)arg = 1;
	pthread_testcancel();
	*(int *)arg = 2;
	return NULL;
}

int main(void)
{
	int reached = 0;
	CHECK(join_thread(start_thread(cancels_self, &reached)) == PTHREAD_CANCELED);
	CHECK_EQ(reached, 1);
	return 0;
}
