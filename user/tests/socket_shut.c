/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A receive from a datagram's socket that was shut down for reading, before it or while it waits,
 * finds the end, as on a stream: there is nothing to wait for any more. What had come before comes
 * first. All who wait for a connection of a listener that was shut down find out, too.
 */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum { PAUSE_US = 20000, ACCEPTORS = 4, LISTENERS = 50 };

static int fd;

static long by_recv(char *byte)
{
	return recv(fd, byte, 1, 0);
}

static long by_recvfrom(char *byte)
{
	struct sockaddr_storage name;
	socklen_t length = sizeof name;
	return recvfrom(fd, byte, 1, 0, (struct sockaddr *)&name, &length);
}

static long by_recvmsg(char *byte)
{
	struct iovec part = { byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	return recvmsg(fd, &message, 0);
}

static long by_recvmmsg(char *byte)
{
	struct iovec part = { byte, 1 };
	struct mmsghdr message = { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } };
	CHECK_EQ(recvmmsg(fd, &message, 1, 0, NULL), 1);
	return message.msg_len;
}

static long by_read(char *byte)
{
	return read(fd, byte, 1);
}

static long by_readv(char *byte)
{
	struct iovec parts[] = { { byte, 0 }, { byte, 1 } };
	return readv(fd, parts, 2);
}

static long (*const receives[])(char *) = { by_recv,	 by_recvfrom, by_recvmsg,
					    by_recvmmsg, by_read,     by_readv };
static long (*receive)(char *);

static int datagram(int family)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct sockaddr_in6 longer = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int made = socket(family, SOCK_DGRAM, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (made < 0)
		return -1;
	if (family == AF_INET) {
		CHECK_EQ(bind(made, (struct sockaddr *)&address, sizeof address), 0);
	} else if (bind(made, (struct sockaddr *)&longer, sizeof longer) != 0) {
		close(made);
		return -1;
	}
	return made;
}

/* The kernel says that nobody is at the other end, and does it all the same. */
static void shut(int how)
{
	if (shutdown(fd, how) != 0)
		CHECK_EQ(errno, ENOTCONN);
}

static void *finds_the_end(void *unused)
{
	char byte = 'x';
	CHECK_EQ(receive(&byte), 0);
	CHECK_EQ(byte, 'x');
	return unused;
}

static void ends(int how, int is_before)
{
	pthread_t thread;
	if (is_before)
		shut(how);
	CHECK_EQ(pthread_create(&thread, NULL, finds_the_end, NULL), 0);
	if (!is_before) {
		usleep(PAUSE_US);
		shut(how);
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* Of a listener all who wait for a connection find that there will be none. */
static void *finds_no_connection(void *unused)
{
	CHECK_ERRNO(accept(fd, NULL, NULL), EINVAL);
	return unused;
}

static void listener_ends(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	pthread_t threads[ACCEPTORS];
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	/* One that the kernel chooses. */
	CHECK_EQ(bind(fd, (struct sockaddr *)&name, sizeof name.sun_family), 0);
	CHECK_EQ(listen(fd, 1), 0);
	for (int i = 0; i < ACCEPTORS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, finds_no_connection, NULL), 0);
	usleep(PAUSE_US / 10);
	shut(SHUT_RDWR);
	for (int i = 0; i < ACCEPTORS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	close(fd);
}

static void *finds_what_came(void *unused)
{
	char byte = 0;
	CHECK_EQ(receive(&byte), 1);
	CHECK_EQ(byte, 'a');
	return finds_the_end(unused);
}

int main(void)
{
	static const int families[] = { AF_INET, AF_INET6 }, hows[] = { SHUT_RD, SHUT_RDWR };
	pthread_t thread;
	int pair[2];
	for (size_t i = 0; i < sizeof receives / sizeof *receives; i++) {
		receive = receives[i];
		for (int kind = 0; kind < 8; kind++) {
			fd = datagram(families[kind & 1]);
			if (fd < 0)
				continue; /* no such addresses here */
			ends(hows[kind >> 1 & 1], kind >> 2);
			close(fd);
		}
		CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
		fd = pair[0];
		CHECK_EQ(send(pair[1], "a", 1, 0), 1);
		shut(SHUT_RD);
		CHECK_EQ(pthread_create(&thread, NULL, finds_what_came, NULL), 0);
		CHECK_EQ(pthread_join(thread, NULL), 0);
		close(pair[0]);
		close(pair[1]);
	}
	for (int i = 0; i < LISTENERS; i++)
		listener_ends();
	return 0;
}
