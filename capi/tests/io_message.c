/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * recvmsg and sendmsg pass descriptors, vectors and flags.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/socket.h>
#include <sys/uio.h>

static int ends[2], passed[2];

static void *sends(void *arg)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { .bytes = "" };
	struct iovec parts[2] = { { "ab", 2 }, { "cd", 2 } };
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = 2,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof control.bytes };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &passed[1], sizeof(int));
	sleep_ms(3);
	CHECK_EQ(sendmsg(ends[1], &message, 0), 4);
	return arg;
}

int main(void)
{
	char buffer[8], byte;
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec part = { buffer, sizeof buffer };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof control.bytes };
	int fd;
	CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	CHECK_EQ(pipe(passed), 0);
	pthread_t thread = start_thread(sends, NULL);
	CHECK_EQ(recvmsg(ends[0], &message, 0), 4);
	CHECK_EQ(memcmp(buffer, "abcd", 4), 0);
	CHECK(CMSG_FIRSTHDR(&message) != NULL);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	CHECK_EQ(write(fd, "x", 1), 1);
	CHECK_EQ(read(passed[0], &byte, 1), 1);
	/* A datagram that does not fit says so. */
	join_thread(thread);
	CHECK_EQ(send(ends[1], "123456789", 9, 0), 9);
	message.msg_controllen = 0;
	CHECK_EQ(recvmsg(ends[0], &message, 0), sizeof buffer);
	CHECK(message.msg_flags & MSG_TRUNC);
	return 0;
}
