// Floor: a hand-written epoll loop, no threads per connection. What a runtime should approach.
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/epoll.h>

#include "server.h"

enum { EVENTS = 512, REQUEST_BYTES_MAX = 65536 };

static struct response response;
static int serves_http, port;

static void watch(int epoll, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl", errno);
}

static void accept_all(int epoll, int listener)
{
	int fd, on = 1;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		watch(epoll, fd, EPOLLIN);
	}
	if (errno != EAGAIN && errno != ECONNABORTED)
		die("accept", errno);
}

static void answer(int fd, char *buffer)
{
	ssize_t got = recv(fd, buffer, REQUEST_BYTES_MAX, 0), sent;

	if (got <= 0) {
		if (got == 0 || errno != EAGAIN)
			close(fd);
		return;
	}
	if (!serves_http)
		sent = send(fd, buffer, (size_t)got, MSG_NOSIGNAL);
	else if (wants_index(buffer, (size_t)got))
		sent = send(fd, response.bytes, response.len, MSG_NOSIGNAL);
	else
		sent = send(fd, NOT_FOUND, sizeof NOT_FOUND - 1, MSG_NOSIGNAL);
	// A closed-loop client has room for one answer; a short send means that it is gone.
	if (sent < 0)
		close(fd);
}

static void *serve(void *unused)
{
	struct epoll_event events[EVENTS];
	int listener = listen_on(port, SOCK_NONBLOCK), epoll = epoll_create1(EPOLL_CLOEXEC);
	char *buffer = malloc(REQUEST_BYTES_MAX);

	(void)unused;
	if (epoll < 0 || !buffer)
		die("epoll_create1", errno);
	watch(epoll, listener, EPOLLIN | EPOLLET);
	for (;;) {
		int count = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < count; i++) {
			if (events[i].data.fd == listener)
				accept_all(epoll, listener);
			else
				answer(events[i].data.fd, buffer);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long workers;

	if (argc < 4 || (strcmp(argv[1], "echo") && (strcmp(argv[1], "http") || argc < 5))) {
		fprintf(stderr, "usage: epoll_server echo PORT WORKERS | http PORT WORKERS DIR\n");
		return 2;
	}
	serves_http = !strcmp(argv[1], "http");
	port = (int)number(argv[2], 1, 65535);
	workers = number(argv[3], 1, 1024);
	raise_fd_limit();
	if (serves_http)
		load_response(&response, argv[4]);
	for (long i = 1; i < workers; i++) {
		pthread_t thread;
		int error = pthread_create(&thread, NULL, serve, NULL);

		if (error)
			die("pthread_create", error);
	}
	serve(NULL);
	return 0;
}
