// An echo server as a book on POSIX threads has it: a detached thread per connection, which reads
// and writes until its client goes.
//
//   tpc PORT
//
// It knows nothing of heddle, and serves until it is ended. What a thread keeps in thread-local
// storage is looked at after each wait, so a server whose threads are mixed up ends at once.
#define _GNU_SOURCE
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../c/common.h"

enum { STACK_BYTES = 65536, BUFFER_BYTES = 4096, BACKLOG = 16384 };

static __thread int own_fd;

static int send_all(int fd, const char *bytes, ssize_t len)
{
	while (len > 0) {
		ssize_t sent = write(fd, bytes, (size_t)len);

		if (sent <= 0)
			return -1;
		bytes += sent;
		len -= sent;
	}
	return 0;
}

static void *serve(void *argument)
{
	int fd = (int)(intptr_t)argument;
	char buffer[BUFFER_BYTES];
	ssize_t len;

	own_fd = fd;
	while ((len = read(fd, buffer, sizeof buffer)) > 0) {
		if (own_fd != fd) {
			fputs("thread-local storage of another thread\n", stderr);
			_exit(3);
		}
		if (send_all(fd, buffer, len))
			break;
	}
	close(fd);
	return NULL;
}

static int listen_on(int port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on))
		die("socket", errno);
	if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, BACKLOG))
		die("bind", errno);
	return fd;
}

static void *accept_all(void *argument)
{
	int listener = (int)(intptr_t)argument;
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	for (;;) {
		int fd = accept(listener, NULL, NULL), error;
		pthread_t thread;

		if (fd < 0)
			die("accept", errno);
		error = pthread_create(&thread, &attributes, serve, (void *)(intptr_t)fd);
		if (error)
			die("pthread_create", error);
	}
}

int main(int argc, char **argv)
{
	pthread_t acceptor;
	int error;

	if (argc != 2) {
		fprintf(stderr, "usage: tpc PORT\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	raise_fd_limit();
	error = pthread_create(&acceptor, NULL, accept_all,
			       (void *)(intptr_t)listen_on((int)number(argv[1], 1, 65535)));
	if (error)
		die("pthread_create", error);
	pthread_join(acceptor, NULL);
	return 0;
}
