/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * select reports ready descriptors by set, times out with empty sets, and refuses bad arguments.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/select.h>

static int ends[2];

static void *writes(void *arg)
{
	sleep_ms(10);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	return arg;
}

static void *selects(void *arg)
{
	fd_set in, out;
	struct timeval limit = { 0, 20000 };
	CHECK_EQ(pipe(ends), 0);
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(ends[0], &in);
	long start = now_ms();
	CHECK_EQ(select(ends[1] + 1, &in, &out, NULL, &limit), 0);
	CHECK(now_ms() - start >= 19);
	CHECK(!FD_ISSET(ends[0], &in));
	pthread_t thread = start_thread(writes, NULL);
	FD_SET(ends[0], &in);
	CHECK_EQ(select(ends[1] + 1, &in, NULL, NULL, NULL), 1);
	CHECK(FD_ISSET(ends[0], &in));
	join_thread(thread);
	FD_SET(ends[1], &out);
	CHECK_EQ(select(ends[1] + 1, &in, &out, NULL, NULL), 2);
	CHECK(FD_ISSET(ends[1], &out));
	limit = (struct timeval){ 0, 10000 };
	CHECK_EQ(select(0, NULL, NULL, NULL, &limit), 0);
	struct timespec nothing = { 0, 0 };
	CHECK_EQ(pselect(ends[1] + 1, &in, NULL, NULL, &nothing, NULL), 1);
	CHECK_ERRNO(select(-1, NULL, NULL, NULL, &limit), EINVAL);
	limit = (struct timeval){ -1, 0 };
	CHECK_ERRNO(select(0, NULL, NULL, NULL, &limit), EINVAL);
	close(ends[0]);
	close(ends[1]);
	FD_ZERO(&in);
	FD_SET(ends[0], &in);
	CHECK_ERRNO(select(ends[0] + 1, &in, NULL, NULL, NULL), EBADF);
	return arg;
}

int main(void)
{
	join_thread(start_thread(selects, NULL));
	selects(NULL);
	return 0;
}
