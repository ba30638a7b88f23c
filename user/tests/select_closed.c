/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A descriptor that another thread closes while one waits for it is ready for select when that ends
 * by something else, and an epoll set that is closed has nothing to tell when the time is over.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/epoll.h>
#include <sys/select.h>

enum { WAIT_MS = 1000, LONG_MS = 10000, UNUSED = 60 };

static int closed[2], other[2], set, taken;

/* What select tells of both. */
static int selects(long ms, int *is_closed_ready, int *is_other_ready)
{
	struct timeval time = { ms / 1000, ms % 1000 * 1000 };
	int most = closed[0] > other[0] ? closed[0] : other[0];
	fd_set wanted;
	FD_ZERO(&wanted);
	FD_SET(closed[0], &wanted);
	FD_SET(other[0], &wanted);
	set_value(&taken, 1);
	int ready = select(most + 1, &wanted, NULL, NULL, &time);
	*is_closed_ready = FD_ISSET(closed[0], &wanted);
	*is_other_ready = FD_ISSET(other[0], &wanted);
	return ready;
}

static void *until_time(void *unused)
{
	int is_closed_ready, is_other_ready;
	CHECK_EQ(selects(WAIT_MS, &is_closed_ready, &is_other_ready), 1);
	CHECK(is_closed_ready && !is_other_ready);
	return unused;
}

static void *until_other(void *unused)
{
	int is_closed_ready, is_other_ready;
	CHECK_EQ(selects(LONG_MS, &is_closed_ready, &is_other_ready), 2);
	CHECK(is_closed_ready && is_other_ready);
	return unused;
}

static void *of_set(void *unused)
{
	struct epoll_event event;
	set_value(&taken, 1);
	CHECK_EQ(epoll_wait(set, &event, 1, WAIT_MS), 0);
	return unused;
}

static pthread_t waiting(void *(*start)(void *))
{
	set_value(&taken, 0);
	pthread_t thread = start_thread(start, NULL);
	await_value(&taken, 1);
	sleep_ms(WAIT_MS / 4);
	return thread;
}

int main(void)
{
	pthread_t thread;
	CHECK_EQ(pipe(other), 0);
	CHECK_EQ(pipe(closed), 0);
	thread = waiting(until_time);
	CHECK_EQ(close(closed[0]), 0);
	join_thread(thread);

	CHECK_EQ(pipe(closed), 0);
	thread = waiting(until_other);
	CHECK_EQ(close(closed[0]), 0);
	CHECK_EQ(write(other[1], "x", 1), 1);
	join_thread(thread);

	set = epoll_create1(0);
	CHECK(set >= 0);
	thread = waiting(of_set);
	CHECK_EQ(close(set), 0);
	join_thread(thread);

	/* Before the wait it is wrong. */
	fd_set wanted;
	struct timeval now = { 0, 0 };
	FD_ZERO(&wanted);
	FD_SET(UNUSED, &wanted);
	CHECK_ERRNO(select(UNUSED + 1, &wanted, NULL, NULL, &now), EBADF);
	return 0;
}
