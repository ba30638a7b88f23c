/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Several threads may wait for one descriptor; each byte goes to exactly one of them.
 */
#define _GNU_SOURCE
#include "check.h"

enum { READERS = 8, BYTES = 400 };
static int ends[2];
static int total;

static void *reads(void *arg)
{
	char byte;
	while (read(ends[0], &byte, 1) == 1)
		add_value(&total, 1);
	return arg;
}

int main(void)
{
	pthread_t threads[READERS];
	CHECK_EQ(pipe(ends), 0);
	for (int i = 0; i < READERS; i++)
		threads[i] = start_thread(reads, NULL);
	for (int i = 0; i < BYTES; i++) {
		CHECK_EQ(write(ends[1], "x", 1), 1);
		if (i % 16 == 0)
			sched_yield();
	}
	CHECK_EQ(close(ends[1]), 0);
	for (int i = 0; i < READERS; i++)
		join_thread(threads[i]);
	CHECK_EQ(total, BYTES);
	return 0;
}
