/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread asks for what heddle refuses with a line on standard error, when that is as the first
 * argument says; the second one is a file's name.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int is_at_2(int fd)
{
	return fd == 2;
}

static int put(int fd)
{
	return dup2(fd, 2) == 2 && close(fd) == 0;
}

static void *asks(void *unused)
{
	(void)setns(-1, 0);
	return unused;
}

static int prepare(const char *way, const char *file, int *other)
{
	int ends[2];

	if (strcmp(way, "same") == 0)
		return 1;
	if (strcmp(way, "closed") == 0)
		return close(2) == 0;
	if (strcmp(way, "file") == 0)
		return close(2) == 0 && is_at_2(open(file, O_CREAT | O_WRONLY, 0600));
	if (strcmp(way, "log") == 0)
		return put(open(file, O_CREAT | O_WRONLY | O_APPEND, 0600));
	if (strcmp(way, "connection") == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0) {
		*other = ends[1];
		return put(ends[0]);
	}
	return 0;
}

int main(int count, char **args)
{
	pthread_t thread;
	int other = -1;
	char byte;

	if (count != 3 || !prepare(args[1], args[2], &other))
		return 2;
	if (pthread_create(&thread, NULL, asks, NULL) || pthread_join(thread, NULL))
		return 3;
	return other >= 0 && recv(other, &byte, 1, MSG_DONTWAIT) >= 0;
}
