/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Connecting where nobody listens is ECONNREFUSED.
 */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static void *connects(void *arg)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof address;
	int bound = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	/* Bound but not listening: nobody else can listen at this port meanwhile. */
	CHECK_EQ(bind(bound, (struct sockaddr *)&address, sizeof address), 0);
	CHECK_EQ(getsockname(bound, (struct sockaddr *)&address, &length), 0);
	CHECK_ERRNO(connect(fd, (struct sockaddr *)&address, sizeof address), ECONNREFUSED);
	close(fd);
	close(bound);
	return arg;
}

int main(void)
{
	join_thread(start_thread(connects, NULL));
	connects(NULL);
	return 0;
}
