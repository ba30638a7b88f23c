/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads wait in every way where a process may have 64 descriptors.
 */
#define _GNU_SOURCE
#include "all_waits.h"
#include <stdlib.h>
#include <sys/resource.h>

enum { LIMIT = 64, ROUNDS = 3 };

static void open_some(void)
{
	int ends[2];
	open_pipe(ends);
	close_pipe(ends);
}

int main(void)
{
	struct rlimit limit;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = LIMIT;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	/* More workers than have room for their descriptors. */
	CHECK_EQ(setenv("HEDDLE_WORKERS", "64", 1), 0);
	note_open();
	for (int i = 0; i < ROUNDS; i++)
		wait_in_all_ways(open_some);
	return 0;
}
