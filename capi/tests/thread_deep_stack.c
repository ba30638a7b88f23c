/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread may use the stack that its attributes ask for.
 */
#define _GNU_SOURCE
#include "check.h"

static long dig(int depth)
{
	volatile char frame[4096];
	for (size_t i = 0; i < sizeof frame; i += 512)
		frame[i] = (char)depth;
	return depth == 0 ? frame[0] : dig(depth - 1) + frame[512];
}

static void *digs(void *arg)
{
	return (void *)dig((int)(intptr_t)arg);
}

int main(void)
{
	pthread_t thread;
	pthread_attr_t attr;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstacksize(&attr, 4 << 20), 0);
	CHECK_EQ(pthread_create(&thread, &attr, digs, (void *)800), 0);
	join_thread(thread);
	return 0;
}
