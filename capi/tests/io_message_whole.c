/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A blocking sendmsg sends all of its message through a stream, however much that takes at once;
 * recvfrom and recvmsg with MSG_WAITALL receive all that they were asked for.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/socket.h>
#include <sys/uio.h>

enum { MUCH = 4 << 20, STEP = 10007 };

static int ends[2];
static char *sent, *got;

static void *sends(void *arg)
{
	struct iovec parts[3] = { { sent, STEP }, { sent + STEP, 0 }, { sent + STEP, MUCH - STEP } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3 };

	CHECK_EQ(sendmsg(ends[1], &message, 0), MUCH);
	for (int done = 0; done < MUCH; done += MUCH / 4) {
		CHECK_EQ(send(ends[1], sent + done, MUCH / 4, 0), MUCH / 4);
		sleep_ms(2);
	}
	return arg;
}

int main(void)
{
	struct iovec parts[2];
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	sent = malloc(MUCH);
	got = calloc(1, MUCH);
	CHECK(sent && got);
	for (int i = 0; i < MUCH; i++)
		sent[i] = (char)(i * 7 + i / 256);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pthread_t thread = start_thread(sends, NULL);
	CHECK_EQ(recvfrom(ends[0], got, MUCH, MSG_WAITALL, NULL, NULL), MUCH);
	CHECK_EQ(memcmp(sent, got, MUCH), 0);
	memset(got, 0, MUCH);
	parts[0] = (struct iovec){ got, MUCH - STEP };
	parts[1] = (struct iovec){ got + MUCH - STEP, STEP };
	CHECK_EQ(recvmsg(ends[0], &message, MSG_WAITALL), MUCH);
	CHECK_EQ(memcmp(sent, got, MUCH), 0);
	join_thread(thread);
	/* What is left at the end of the stream. */
	CHECK_EQ(send(ends[1], "end", 3, 0), 3);
	CHECK_EQ(shutdown(ends[1], SHUT_WR), 0);
	CHECK_EQ(recvmsg(ends[0], &message, MSG_WAITALL), 3);
	CHECK_EQ(recvfrom(ends[0], got, MUCH, MSG_WAITALL, NULL, NULL), 0);
	CHECK_EQ(errno, 0);
	return 0;
}
