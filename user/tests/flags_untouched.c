/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A descriptor keeps its mode while threads wait for it, and one in non-blocking mode never waits.
 */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>

static int ends[2], listener, entered;

static void *reads(void *arg)
{
	char byte;
	add_value(&entered, 1);
	CHECK_EQ(read(ends[0], &byte, 1), 1);
	return arg;
}

static void *accepts(void *arg)
{
	add_value(&entered, 1);
	int fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	close(fd);
	return arg;
}

static void *never_waits(void *arg)
{
	char byte;
	CHECK_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	CHECK_ERRNO(read(ends[0], &byte, 1), EAGAIN);
	CHECK_ERRNO(recv(ends[0], &byte, 1, 0), EAGAIN);
	CHECK_EQ(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	CHECK_ERRNO(accept(listener, NULL, NULL), EAGAIN);
	ssize_t sum = 0, length;
	static char large[1 << 16];
	while ((length = write(ends[0], large, sizeof large)) > 0)
		sum += length;
	CHECK_EQ(errno, EAGAIN);
	CHECK(sum > 0);
	return arg;
}

int main(void)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = { .sin_family = AF_INET };
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	socklen_t size = sizeof address;
	CHECK_EQ(bind(listener, (struct sockaddr *)&address, size), 0);
	CHECK_EQ(listen(listener, 4), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &size), 0);

	pthread_t reader = start_thread(reads, NULL), acceptor = start_thread(accepts, NULL);
	await_value(&entered, 2);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
		CHECK_EQ(fcntl(listener, F_GETFL) & O_NONBLOCK, 0);
		sleep_ms(1);
	}
	CHECK_EQ(write(ends[1], "x", 1), 1);
	int client = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(connect(client, (struct sockaddr *)&address, size), 0);
	join_thread(reader);
	join_thread(acceptor);
	join_thread(start_thread(never_waits, NULL));
	return 0;
}
