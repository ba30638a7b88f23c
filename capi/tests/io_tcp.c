/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads accept, connect, send and receive over TCP, one per connection.
 */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { CLIENTS = 20, ROUNDS = 20 };
static struct sockaddr_in address = { .sin_family = AF_INET };

static void *echoes(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buffer[64];
	ssize_t length;
	while ((length = recv(fd, buffer, sizeof buffer, 0)) > 0)
		CHECK_EQ(send(fd, buffer, (size_t)length, 0), length);
	CHECK_EQ(length, 0);
	CHECK_EQ(close(fd), 0);
	return NULL;
}

static void *serves(void *arg)
{
	int listener = (int)(intptr_t)arg;
	pthread_t threads[CLIENTS];
	for (int i = 0; i < CLIENTS; i++) {
		struct sockaddr_in peer;
		socklen_t length = sizeof peer;
		int fd = i % 2 ? accept(listener, (struct sockaddr *)&peer, &length)
			       : accept4(listener, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC);
		CHECK(fd >= 0);
		CHECK_EQ(length, sizeof peer);
		CHECK_EQ(peer.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
		threads[i] = start_thread(echoes, (void *)(intptr_t)fd);
	}
	for (int i = 0; i < CLIENTS; i++)
		join_thread(threads[i]);
	return NULL;
}

static void *asks(void *arg)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	for (int i = 0; i < ROUNDS; i++) {
		char out[32], in[32];
		memset(out, (int)(intptr_t)arg + i, sizeof out);
		CHECK_EQ(write(fd, out, sizeof out), sizeof out);
		CHECK_EQ(recv(fd, in, sizeof in, MSG_WAITALL), sizeof in);
		CHECK_EQ(memcmp(in, out, sizeof in), 0);
	}
	CHECK_EQ(close(fd), 0);
	return NULL;
}

int main(void)
{
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t threads[CLIENTS];
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	CHECK_EQ(listen(listener, CLIENTS), 0);
	pthread_t server = start_thread(serves, (void *)(intptr_t)listener);
	for (intptr_t i = 0; i < CLIENTS; i++)
		threads[i] = start_thread(asks, (void *)i);
	for (int i = 0; i < CLIENTS; i++)
		join_thread(threads[i]);
	join_thread(server);
	return 0;
}
