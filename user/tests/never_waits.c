/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls that don't wait on a descriptor in blocking mode don't wait on any thread.
 */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

static void *calls(void *arg)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), ends[2];
	char buffer[64], control[256];
	struct iovec part = { buffer, sizeof buffer };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof control };
	CHECK_ERRNO(recvmsg(fd, &message, MSG_ERRQUEUE), EAGAIN);
	CHECK_ERRNO(recv(fd, buffer, sizeof buffer, MSG_DONTWAIT), EAGAIN);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	CHECK_EQ(read(ends[0], buffer, 0), 0);
	CHECK_EQ(poll(NULL, 0, 0), 0);
	struct pollfd one = { .fd = ends[0], .events = POLLIN };
	CHECK_EQ(poll(&one, 1, 0), 0);
	fd_set set;
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	struct timeval now = { 0, 0 };
	CHECK_EQ(select(ends[0] + 1, &set, NULL, NULL, &now), 0);
	CHECK(!FD_ISSET(ends[0], &set));
	struct epoll_event event;
	int epoll = epoll_create1(0);
	CHECK_EQ(epoll_wait(epoll, &event, 1, 0), 0);
	CHECK_ERRNO(epoll_wait(ends[0], &event, 1, -1), EINVAL);
	CHECK_ERRNO(accept(ends[0], NULL, NULL), EINVAL);
	CHECK_ERRNO(connect(fd, NULL, 16), EFAULT);
	struct timespec bad = { 0, -1 };
	CHECK_ERRNO(nanosleep(&bad, NULL), EINVAL);
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad, NULL), EINVAL);
	CHECK_ERRNO(ppoll(&one, 1, &bad, NULL), EINVAL);
	return arg;
}

int main(void)
{
	join_thread(start_thread(calls, NULL));
	return 0;
}
