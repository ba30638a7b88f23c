/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread may wait for an epoll set of its own; its timeouts and errors are epoll's.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/epoll.h>

static int ends[2];

static void *writes(void *arg)
{
	sleep_ms(10);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	return arg;
}

static void *waits(void *arg)
{
	int set = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = 77 };
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), 0);
	CHECK_EQ(epoll_wait(set, &event, 1, 0), 0);
	long start = now_ms();
	CHECK_EQ(epoll_wait(set, &event, 1, 20), 0);
	CHECK(now_ms() - start >= 19);
	pthread_t thread = start_thread(writes, NULL);
	event.data.u32 = 0;
	CHECK_EQ(epoll_wait(set, &event, 1, -1), 1);
	CHECK_EQ(event.data.u32, 77);
	join_thread(thread);
	CHECK_ERRNO(epoll_wait(set, &event, 0, -1), EINVAL);
	CHECK_ERRNO(epoll_wait(-1, &event, 1, -1), EBADF);
	close(set);
	close(ends[0]);
	close(ends[1]);
	return arg;
}

int main(void)
{
	join_thread(start_thread(waits, NULL));
	waits(NULL);
	return 0;
}
