/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Several messages with one call: recvmmsg waits for all, or for one; sendmmsg sends all.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/socket.h>

enum { COUNT = 6 };
static int ends[2];

static void prepare(struct mmsghdr *messages, struct iovec *parts, char (*texts)[8])
{
	memset(messages, 0, COUNT * sizeof *messages);
	for (int i = 0; i < COUNT; i++) {
		parts[i] = (struct iovec){ texts[i], sizeof texts[i] };
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
}

static void *receives(void *arg)
{
	char texts[COUNT][8];
	struct iovec parts[COUNT];
	struct mmsghdr messages[COUNT];
	prepare(messages, parts, texts);
	CHECK_EQ(recvmmsg(ends[0], messages, COUNT, 0, NULL), COUNT);
	for (int i = 0; i < COUNT; i++) {
		CHECK_EQ(messages[i].msg_len, 1);
		CHECK_EQ(texts[i][0], i);
	}
	prepare(messages, parts, texts);
	CHECK_EQ(recvmmsg(ends[0], messages, COUNT, MSG_WAITFORONE, NULL), 1);
	CHECK_ERRNO(recvmmsg(ends[0], messages, COUNT, MSG_DONTWAIT, NULL), EAGAIN);
	return arg;
}

int main(void)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	pthread_t thread = start_thread(receives, NULL);
	for (char i = 0; i < COUNT - 2; i++) {
		CHECK_EQ(send(ends[1], &i, 1, 0), 1);
		sleep_ms(5);
	}
	char texts[COUNT][8];
	struct iovec parts[COUNT];
	struct mmsghdr messages[COUNT];
	prepare(messages, parts, texts);
	for (int i = 0; i < 2; i++) {
		texts[i][0] = (char)(COUNT - 2 + i);
		parts[i].iov_len = 1;
	}
	CHECK_EQ(sendmmsg(ends[1], messages, 2, 0), 2);
	CHECK_EQ(messages[1].msg_len, 1);
	sleep_ms(20);
	CHECK_EQ(send(ends[1], "x", 1, 0), 1);
	join_thread(thread);
	return 0;
}
