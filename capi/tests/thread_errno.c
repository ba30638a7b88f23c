/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * errno belongs to the thread: what others do while it waits does not show.
 */
#define _GNU_SOURCE
#include "check.h"

static void *keep_errno(void *arg)
{
	int mine = (int)(intptr_t)arg;
	for (int i = 0; i < 100; i++) {
		errno = mine;
		sched_yield();
		CHECK_EQ(errno, mine);
		close(-1);
		CHECK_EQ(errno, EBADF);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[8];
	for (intptr_t i = 0; i < 8; i++)
		threads[i] = start_thread(keep_errno, (void *)(1000 + i));
	for (int i = 0; i < 8; i++)
		join_thread(threads[i]);
	return 0;
}
