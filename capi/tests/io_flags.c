/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * MSG_PEEK leaves the bytes, MSG_WAITALL waits for all of them.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/socket.h>

static int ends[2];

static void *sends(void *arg)
{
	for (int i = 0; i < 4; i++) {
		sleep_ms(2);
		CHECK_EQ(send(ends[1], "0123" + i, 1, 0), 1);
	}
	return arg;
}

int main(void)
{
	char buffer[8];
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pthread_t thread = start_thread(sends, NULL);
	CHECK_EQ(recv(ends[0], buffer, 1, MSG_PEEK), 1);
	CHECK_EQ(buffer[0], '0');
	CHECK_EQ(recv(ends[0], buffer, 4, MSG_WAITALL), 4);
	CHECK_EQ(memcmp(buffer, "0123", 4), 0);
	join_thread(thread);
	return 0;
}
