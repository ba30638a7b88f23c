/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * sendfile: what comes is the file, whatever waits; a socket that is full, one that does not wait,
 * one that was closed, one with a timeout, one for messages; the position, and the offset that is
 * given instead.
 */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { BYTES = 3000001, PIECE = 1000, AT = 12345, MESSAGE = 40000 };

static int file, ends[2];

static unsigned char byte_at(long place)
{
	return (unsigned char)(place * 7 + place / 251);
}

static void make_file(void)
{
	char name[] = "sendfile-XXXXXX";
	unsigned char *bytes = malloc(BYTES);
	file = mkstemp(name);
	CHECK(file >= 0);
	CHECK_EQ(unlink(name), 0);
	for (long i = 0; i < BYTES; i++)
		bytes[i] = byte_at(i);
	CHECK_EQ(write(file, bytes, BYTES), BYTES);
	free(bytes);
}

static void make_sockets(int kind)
{
	CHECK_EQ(socketpair(AF_UNIX, kind, 0, ends), 0);
}

/* Reads slowly at first, so that the sender waits; checks from `place` on, to the end. */
static void *receive(void *place)
{
	static unsigned char bytes[1 << 16];
	long at = (long)place, begin = at;
	ssize_t count;
	usleep(20000);
	while ((count = read(ends[1], bytes, sizeof bytes)) > 0)
		for (ssize_t i = 0; i < count; i++, at++)
			CHECK_EQ(bytes[i], byte_at(at));
	CHECK_EQ(count, 0);
	return (void *)(at - begin);
}

static void *send_all(void *given)
{
	off_t offset = AT;
	if (given == NULL) {
		CHECK_EQ(lseek(file, AT, SEEK_SET), AT);
		CHECK_EQ(sendfile(ends[0], file, NULL, PIECE), PIECE);
		CHECK_EQ(lseek(file, 0, SEEK_CUR), AT + PIECE);
		/* More than there is. */
		CHECK_EQ(sendfile(ends[0], file, NULL, 2L * BYTES), BYTES - AT - PIECE);
		CHECK_EQ(lseek(file, 0, SEEK_CUR), BYTES);
		CHECK_EQ(sendfile(ends[0], file, NULL, PIECE), 0);
	} else {
		CHECK_EQ(lseek(file, 3, SEEK_SET), 3);
		CHECK_EQ(sendfile(ends[0], file, &offset, BYTES - AT), BYTES - AT);
		CHECK_EQ(offset, BYTES);
		CHECK_EQ(lseek(file, 0, SEEK_CUR), 3);
	}
	CHECK_EQ(close(ends[0]), 0);
	return NULL;
}

static void *does_not_wait(void *arg)
{
	off_t offset = 0;
	ssize_t count;
	long sent = 0;
	CHECK_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	while ((count = sendfile(ends[0], file, &offset, BYTES - (size_t)offset)) > 0) {
		sent += count;
		CHECK_EQ(offset, sent);
	}
	CHECK_EQ(count, -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK(sent > 0 && sent < BYTES);
	CHECK_EQ(offset, sent);
	CHECK_EQ(close(ends[0]), 0);
	return arg;
}

static void *has_a_timeout(void *arg)
{
	struct timeval timeout = { 0, 50000 };
	off_t offset = 0;
	ssize_t count = 0;
	long sent = 0;
	CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout), 0);
	do {
		sent += count;
		count = sendfile(ends[0], file, &offset, BYTES - (size_t)offset);
	} while (count > 0);
	CHECK_EQ(errno, EAGAIN);
	CHECK(sent > 0 && sent < BYTES);
	CHECK_EQ(close(ends[0]), 0);
	return arg;
}

static void *nobody_is_there(void *arg)
{
	off_t offset = 0;
	CHECK_EQ(close(ends[1]), 0);
	CHECK_EQ(sendfile(ends[0], file, &offset, PIECE), -1);
	CHECK_EQ(errno, EPIPE);
	CHECK_EQ(offset, 0);
	CHECK_EQ(sendfile(-1, file, &offset, PIECE), -1);
	CHECK_EQ(errno, EBADF);
	CHECK_EQ(sendfile(ends[0], -1, &offset, PIECE), -1);
	CHECK_EQ(errno, EBADF);
	CHECK_EQ(sendfile(ends[0], file, (off_t *)1, PIECE), -1);
	CHECK_EQ(errno, EFAULT);
	offset = -1;
	CHECK_EQ(sendfile(ends[0], file, &offset, PIECE), -1);
	CHECK_EQ(errno, EINVAL);
	/* More than can be counted. */
	offset = 5;
	CHECK_EQ(sendfile(ends[0], file, &offset, SIZE_MAX), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(sendfile(ends[0], file, &offset, SSIZE_MAX), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(offset, 5);
	CHECK_EQ(close(ends[0]), 0);
	return arg;
}

static void *sends_messages(void *arg)
{
	static unsigned char bytes[2 * MESSAGE];
	off_t offset = AT;
	CHECK_EQ(sendfile(ends[0], file, &offset, MESSAGE), MESSAGE);
	CHECK_EQ(read(ends[1], bytes, sizeof bytes), MESSAGE);
	for (long i = 0; i < MESSAGE; i++)
		CHECK_EQ(bytes[i], byte_at(AT + i));
	CHECK_EQ(close(ends[0]), 0);
	CHECK_EQ(close(ends[1]), 0);
	return arg;
}

static void run(void *(*body)(void *), void *arg, long place, long bytes)
{
	pthread_t sender, receiver;
	void *came;
	make_sockets(body == sends_messages ? SOCK_SEQPACKET : SOCK_STREAM);
	if (bytes != 0)
		CHECK_EQ(pthread_create(&receiver, NULL, receive, (void *)place), 0);
	CHECK_EQ(pthread_create(&sender, NULL, body, arg), 0);
	CHECK_EQ(pthread_join(sender, NULL), 0);
	if (bytes != 0) {
		CHECK_EQ(pthread_join(receiver, &came), 0);
		CHECK_EQ((long)came, bytes);
		CHECK_EQ(close(ends[1]), 0);
	}
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	make_file();
	run(send_all, NULL, AT, BYTES - AT);
	run(send_all, &file, AT, BYTES - AT);
	run(does_not_wait, NULL, 0, 0);
	CHECK_EQ(close(ends[1]), 0);
	run(has_a_timeout, NULL, 0, 0);
	CHECK_EQ(close(ends[1]), 0);
	run(nobody_is_there, NULL, 0, 0);
	run(sends_messages, NULL, 0, 0);
	return 0;
}
