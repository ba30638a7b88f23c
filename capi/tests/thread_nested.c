/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads create and join threads, several levels deep.
 */
#define _GNU_SOURCE
#include "check.h"

static void *descend(void *arg)
{
	intptr_t depth = (intptr_t)arg;
	if (depth == 0)
		return (void *)1;
	pthread_t left = start_thread(descend, (void *)(depth - 1));
	pthread_t right = start_thread(descend, (void *)(depth - 1));
	return (void *)((intptr_t)join_thread(left) + (intptr_t)join_thread(right));
}

int main(void)
{
	CHECK_EQ((intptr_t)join_thread(start_thread(descend, (void *)6)), 64);
	return 0;
}
