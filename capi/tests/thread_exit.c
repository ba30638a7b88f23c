/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * pthread_exit ends the thread from any depth and gives the joiner its value.
 */
#define _GNU_SOURCE
#include "check.h"

static void exit_deep(int depth)
{
	volatile char frame[64];
	frame[0] = (char)depth;
	if (depth == 0)
		pthread_exit((void *)99);
	if (frame[0] >= 0)
		exit_deep(depth - 1);
	frame[1] = frame[0];
}

static void *exits(void *arg)
{
	exit_deep(20);
	return arg;
}

int main(void)
{
	for (int i = 0; i < 50; i++)
		CHECK_EQ((intptr_t)join_thread(start_thread(exits, NULL)), 99);
	return 0;
}
