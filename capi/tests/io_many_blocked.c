/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Two hundred threads blocked in reads leave the workers to the others.
 */
#define _GNU_SOURCE
#include "check.h"

enum { COUNT = 200 };
static int ends[COUNT][2];

static void *relays(void *arg)
{
	intptr_t i = (intptr_t)arg;
	char byte;
	CHECK_EQ(read(ends[i][0], &byte, 1), 1);
	if (i + 1 < COUNT)
		CHECK_EQ(write(ends[i + 1][1], &byte, 1), 1);
	return (void *)(intptr_t)byte;
}

int main(void)
{
	pthread_t threads[COUNT];
	for (int i = 0; i < COUNT; i++)
		CHECK_EQ(pipe(ends[i]), 0);
	for (intptr_t i = 0; i < COUNT; i++)
		threads[i] = start_thread(relays, (void *)i);
	sleep_ms(5);
	CHECK_EQ(write(ends[0][1], "r", 1), 1);
	for (int i = 0; i < COUNT; i++)
		CHECK_EQ((intptr_t)join_thread(threads[i]), 'r');
	return 0;
}
