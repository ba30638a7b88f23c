/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread per connection: a thousand connections are served, and each by its own thread-locals.
 */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { CONNECTIONS = 1000, ROUNDS = 5 };

static __thread int own;
static int listener, served;

static void *serves(void *arg)
{
	own = (int)(intptr_t)arg;
	char buffer[64];
	ssize_t length;
	while ((length = read(own, buffer, sizeof buffer)) > 0)
		CHECK_EQ(write(own, buffer, (size_t)length), length);
	CHECK_EQ(length, 0);
	CHECK_EQ(own, (int)(intptr_t)arg);
	close(own);
	add_value(&served, 1);
	return NULL;
}

static void *accepts(void *arg)
{
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < CONNECTIONS; i++) {
		int fd = accept(listener, NULL, NULL);
		CHECK(fd >= 0);
		pthread_t thread;
		CHECK_EQ(pthread_create(&thread, &attributes, serves, (void *)(intptr_t)fd), 0);
	}
	return arg;
}

int main(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < 2 * CONNECTIONS + 64)
		SKIP("too few descriptors are allowed (RLIMIT_NOFILE)");
	listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = { .sin_family = AF_INET };
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	socklen_t size = sizeof address;
	CHECK_EQ(bind(listener, (struct sockaddr *)&address, size), 0);
	CHECK_EQ(listen(listener, 1024), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	pthread_t acceptor = start_thread(accepts, NULL);
	static int clients[CONNECTIONS];
	for (int i = 0; i < CONNECTIONS; i++) {
		clients[i] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK_EQ(connect(clients[i], (struct sockaddr *)&address, size), 0);
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < CONNECTIONS; i++) {
			int word[2] = { i, round };
			CHECK_EQ(write(clients[i], word, sizeof word), sizeof word);
		}
		for (int i = 0; i < CONNECTIONS; i++) {
			int word[2];
			CHECK_EQ(recv(clients[i], word, sizeof word, MSG_WAITALL), sizeof word);
			CHECK_EQ(word[0], i);
			CHECK_EQ(word[1], round);
		}
	}
	for (int i = 0; i < CONNECTIONS; i++)
		close(clients[i]);
	join_thread(acceptor);
	await_value(&served, CONNECTIONS);
	return 0;
}
