/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * poll reports what is ready, hang-ups and bad descriptors, and waits for the first of several.
 */
#define _GNU_SOURCE
#include "check.h"

#include <poll.h>

static int ends[3][2];

static void *writes(void *arg)
{
	sleep_ms(10);
	CHECK_EQ(write(ends[2][1], "x", 1), 1);
	return arg;
}

static void *polls(void *arg)
{
	struct pollfd fds[4];
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(pipe(ends[i]), 0);
		fds[i] = (struct pollfd){ ends[i][0], POLLIN, 0 };
	}
	fds[3] = (struct pollfd){ -1, POLLIN, 99 };
	CHECK_EQ(poll(fds, 4, 0), 0);
	CHECK_EQ(fds[3].revents, 0);
	long start = now_ms();
	CHECK_EQ(poll(fds, 4, 20), 0);
	CHECK(now_ms() - start >= 19);
	pthread_t thread = start_thread(writes, NULL);
	CHECK_EQ(poll(fds, 4, 40000), 1);
	CHECK_EQ(fds[0].revents, 0);
	CHECK_EQ(fds[2].revents, POLLIN);
	join_thread(thread);
	struct pollfd out = { ends[0][1], POLLOUT, 0 };
	CHECK_EQ(poll(&out, 1, -1), 1);
	CHECK_EQ(out.revents, POLLOUT);
	close(ends[0][1]);
	CHECK_EQ(poll(fds, 1, -1), 1);
	CHECK(fds[0].revents & POLLHUP);
	fds[1].fd = 9999;
	CHECK_EQ(poll(fds + 1, 1, -1), 1);
	CHECK_EQ(fds[1].revents, POLLNVAL);
	CHECK_EQ(poll(NULL, 0, 5), 0);
	struct timespec limit = { 0, 5000000 };
	CHECK_EQ(ppoll(NULL, 0, &limit, NULL), 0);
	for (int i = 0; i < 3; i++) {
		close(ends[i][0]);
		close(ends[i][1]);
	}
	return arg;
}

int main(void)
{
	join_thread(start_thread(polls, NULL));
	polls(NULL);
	return 0;
}
