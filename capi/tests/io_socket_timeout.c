/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * SO_RCVTIMEO and SO_SNDTIMEO end a wait with EAGAIN.
 */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static void *waits(void *arg)
{
	int ends[2];
	char byte;
	static char big[1 << 20];
	struct timeval limit = { 0, 20000 };
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
	CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
	long start = now_ms();
	CHECK_ERRNO(recv(ends[0], &byte, 1, 0), EAGAIN);
	CHECK_ERRNO(read(ends[0], &byte, 1), EAGAIN);
	long took = now_ms() - start;
	CHECK(took >= 38 && took < 40000);
	/* What was sent before the time was up is told first. */
	ssize_t length = send(ends[0], big, sizeof big, MSG_NOSIGNAL);
	CHECK(length > 0 && (size_t)length < sizeof big);
	CHECK_ERRNO(send(ends[0], big, sizeof big, MSG_NOSIGNAL), EAGAIN);
	close(ends[0]);
	close(ends[1]);

	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in any = { .sin_family = AF_INET };
	any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(bind(listener, (struct sockaddr *)&any, sizeof any), 0);
	CHECK_EQ(listen(listener, 1), 0);
	CHECK_EQ(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
	CHECK_ERRNO(accept(listener, NULL, NULL), EAGAIN);
	close(listener);
	return arg;
}

int main(void)
{
	join_thread(start_thread(waits, NULL));
	waits(NULL);
	return 0;
}
