/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread per connection, and connections that stay: each says something now and then and gets it
 * back, all the time, and every one of them is still there at the end.
 *
 *   hold_connections [CONNECTIONS [SECONDS]]
 *
 * The clients are another process, which has one thread.
 */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { CONNECTIONS = 1000, SECONDS = 2, TALKS_PER_SECOND = 500 };

static int listener, served;

static void *serves(void *arg)
{
	int fd = (int)(intptr_t)arg;
	long word;
	while (read(fd, &word, sizeof(word)) == sizeof(word))
		CHECK_EQ(write(fd, &word, sizeof(word)), sizeof(word));
	close(fd);
	add_value(&served, 1);
	return NULL;
}

static void talk(int fd, long word)
{
	long answer = 0;
	CHECK_EQ(send(fd, &word, sizeof(word), MSG_NOSIGNAL), sizeof(word));
	CHECK_EQ(recv(fd, &answer, sizeof(answer), MSG_WAITALL), sizeof(answer));
	CHECK_EQ(answer, word);
}

static void be_clients(const struct sockaddr_in *at, long connections, long seconds)
{
	int *fds = calloc((size_t)connections, sizeof(int));
	struct timeval patience = { .tv_sec = 30 };
	CHECK(fds);
	for (long i = 0; i < connections; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(fds[i] >= 0);
		setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		CHECK_EQ(connect(fds[i], (const struct sockaddr *)at, sizeof(*at)), 0);
	}
	long end = now_ms() + seconds * 1000, word = 1;
	for (; now_ms() < end; word++) {
		talk(fds[word * 7919 % connections], word);
		usleep(1000000 / TALKS_PER_SECOND);
	}
	for (long i = 0; i < connections; i++)
		talk(fds[i], word + i);
}

static void have_descriptors(long connections)
{
	struct rlimit limit;
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < (rlim_t)connections + 100)
		SKIP("the limit of open files is too low");
	limit.rlim_cur = limit.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void accept_all(long connections)
{
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	for (long i = 0; i < connections; i++) {
		pthread_t thread;
		int fd = accept(listener, NULL, NULL);
		CHECK(fd >= 0);
		CHECK_EQ(pthread_create(&thread, &attributes, serves, (void *)(intptr_t)fd), 0);
	}
}

static void tell(long connections, long seconds)
{
	struct rusage used;
	CHECK_EQ(getrusage(RUSAGE_SELF, &used), 0);
	printf("%ld connections for %ld s: %ld KiB at most, CPU %ld.%02ld s\n", connections, seconds,
	       used.ru_maxrss, used.ru_utime.tv_sec + used.ru_stime.tv_sec,
	       (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 10000 % 100);
}

int main(int count, char **words)
{
	long connections = count > 1 ? atol(words[1]) : CONNECTIONS;
	long seconds = count > 2 ? atol(words[2]) : SECONDS;
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t length = sizeof(at);
	have_descriptors(connections);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(listener >= 0);
	CHECK_EQ(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&at, &length), 0);
	CHECK_EQ(listen(listener, 1024), 0);
	pid_t clients = fork();
	CHECK(clients >= 0);
	if (clients == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_clients(&at, connections, seconds);
		_exit(0);
	}
	accept_all(connections);
	int status;
	CHECK_EQ(waitpid(clients, &status, 0), clients);
	CHECK_EQ(status, 0);
	await_value(&served, (int)connections);
	tell(connections, seconds);
	return 0;
}
