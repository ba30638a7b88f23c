/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Shutting a socket down wakes the thread that waits for it.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/socket.h>

static int ends[2];

static void *receives(void *arg)
{
	char byte;
	CHECK_EQ(recv(ends[0], &byte, 1, 0), 0);
	return arg;
}

int main(void)
{
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		pthread_t thread = start_thread(receives, NULL);
		if (i % 2)
			sleep_ms(3);
		CHECK_EQ(shutdown(ends[0], SHUT_RD), 0);
		join_thread(thread);
		close(ends[0]);
		close(ends[1]);
	}
	return 0;
}
