/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Datagrams keep their boundaries and their sender.
 */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static struct sockaddr_in server = { .sin_family = AF_INET };

static void *answers(void *arg)
{
	int fd = (int)(intptr_t)arg;
	for (int i = 0; i < 10; i++) {
		struct sockaddr_in peer;
		socklen_t size = sizeof peer;
		char buffer[100];
		ssize_t length =
			recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&peer, &size);
		CHECK_EQ(length, i);
		CHECK_EQ(sendto(fd, buffer, (size_t)length, 0, (struct sockaddr *)&peer, size),
			 length);
	}
	return NULL;
}

int main(void)
{
	socklen_t size = sizeof server;
	int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
	char buffer[100] = "datagrams";
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(bind(a, (struct sockaddr *)&server, sizeof server), 0);
	CHECK_EQ(getsockname(a, (struct sockaddr *)&server, &size), 0);
	pthread_t thread = start_thread(answers, (void *)(intptr_t)a);
	CHECK_EQ(connect(b, (struct sockaddr *)&server, sizeof server), 0);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(send(b, buffer, (size_t)i, 0), i);
		CHECK_EQ(recv(b, buffer, sizeof buffer, 0), i);
	}
	join_thread(thread);
	return 0;
}
