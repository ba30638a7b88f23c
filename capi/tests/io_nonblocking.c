/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A descriptor that says O_NONBLOCK, and MSG_DONTWAIT, get EAGAIN instead of waiting.
 */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <sys/socket.h>

static void *tries(void *arg)
{
	int ends[2];
	char byte;
	CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
	CHECK_ERRNO(read(ends[0], &byte, 1), EAGAIN);
	close(ends[0]);
	close(ends[1]);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	CHECK_ERRNO(recv(ends[0], &byte, 1, MSG_DONTWAIT), EAGAIN);
	/* The descriptor itself stays a blocking one. */
	CHECK_EQ(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
	CHECK_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	CHECK_ERRNO(read(ends[0], &byte, 1), EAGAIN);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr any = { .sa_family = AF_UNIX };
	CHECK_EQ(bind(listener, &any, sizeof any.sa_family), 0);
	CHECK_EQ(listen(listener, 1), 0);
	CHECK_ERRNO(accept(listener, NULL, NULL), EAGAIN);
	close(listener);
	close(ends[0]);
	close(ends[1]);
	return arg;
}

int main(void)
{
	join_thread(start_thread(tries, NULL));
	tries(NULL);
	return 0;
}
