/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A call that succeeds after it had to wait leaves errno as it was.
 */
#define _GNU_SOURCE
#include "check.h"

static int ends[2];

static void *reads(void *arg)
{
	char byte;
	errno = 4242;
	CHECK_EQ(read(ends[0], &byte, 1), 1);
	CHECK_EQ(errno, 4242);
	return arg;
}

int main(void)
{
	CHECK_EQ(pipe(ends), 0);
	pthread_t thread = start_thread(reads, NULL);
	sleep_ms(5);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	join_thread(thread);
	return 0;
}
