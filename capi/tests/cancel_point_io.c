/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Blocking calls on pipes and sockets are cancellation points.
 */
#define _GNU_SOURCE
#include "check.h"

#include <poll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

static int ends[2], listener;
static char bytes[1 << 16];

static void in_read(void)
{
	if (read(ends[0], bytes, 1) < 0)
		CHECK(0);
}

static void in_write(void)
{
	for (;;)
		if (write(ends[0], bytes, sizeof bytes) < 0)
			CHECK(0);
}

static void in_readv(void)
{
	struct iovec part = { bytes, 1 };
	if (readv(ends[0], &part, 1) < 0)
		CHECK(0);
}

static void in_recv(void)
{
	recv(ends[0], bytes, 1, 0);
}

static void in_recvfrom(void)
{
	recvfrom(ends[0], bytes, 1, 0, NULL, NULL);
}

static void in_recvmsg(void)
{
	struct iovec part = { bytes, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	recvmsg(ends[0], &message, 0);
}

static void in_send(void)
{
	for (;;)
		send(ends[0], bytes, sizeof bytes, MSG_NOSIGNAL);
}

static void in_accept(void)
{
	accept(listener, NULL, NULL);
}

static void in_accept4(void)
{
	accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

static void in_poll(void)
{
	struct pollfd wanted = { ends[0], POLLIN, 0 };
	poll(&wanted, 1, -1);
}

static void in_select(void)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	select(ends[0] + 1, &set, NULL, NULL, NULL);
}

static void in_poll_timeout(void)
{
	poll(NULL, 0, 100000);
}

static void (*const calls[])(void) = { in_read,    in_write, in_readv,   in_recv,
				       in_recvfrom, in_recvmsg, in_send,  in_accept,
				       in_accept4, in_poll,  in_select,  in_poll_timeout };

static void *blocks(void *arg)
{
	calls[(intptr_t)arg]();
	return NULL;
}

int main(void)
{
	struct sockaddr_un any = { .sun_family = AF_UNIX };
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_EQ(bind(listener, (struct sockaddr *)&any, sizeof any.sun_family), 0);
	CHECK_EQ(listen(listener, 1), 0);
	for (size_t i = 0; i < sizeof calls / sizeof calls[0] * 2; i++) {
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		pthread_t thread = start_thread(blocks, (void *)(i / 2));
		if (i % 2)
			sleep_ms(5);
		CHECK_EQ(pthread_cancel(thread), 0);
		CHECK(join_thread(thread) == PTHREAD_CANCELED);
		close(ends[0]);
		close(ends[1]);
	}
	return 0;
}
