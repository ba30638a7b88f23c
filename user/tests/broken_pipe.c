/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Writing where nobody reads ends the process by SIGPIPE, or fails with EPIPE if that is ignored.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void *writes(void *pipe_end)
{
	CHECK_ERRNO(write((int)(intptr_t)pipe_end, "x", 1), EPIPE);
	return NULL;
}

static void *sends(void *end)
{
	CHECK_ERRNO(send((int)(intptr_t)end, "x", 1, 0), EPIPE);
	return NULL;
}

static void *sends_quietly(void *end)
{
	CHECK_ERRNO(send((int)(intptr_t)end, "x", 1, MSG_NOSIGNAL), EPIPE);
	return NULL;
}

/* Nor does one of a datagram: no stream is broken. */
static void *sends_datagrams(void *arg)
{
	int ends[2];
	CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	CHECK_EQ(shutdown(ends[0], SHUT_WR), 0);
	CHECK_ERRNO(send(ends[0], "x", 1, 0), EPIPE);
	CHECK_ERRNO(write(ends[0], "x", 1), EPIPE);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	close(ends[1]);
	CHECK_ERRNO(send(ends[0], "x", 1, 0), EPIPE);
	CHECK_ERRNO(write(ends[0], "x", 1), EPIPE);
	return arg;
}

/* How a process ends whose thread calls `function` on what is broken. */
static int status_of(void *(*function)(void *), int is_socket, void (*handler)(int))
{
	pid_t child = fork();
	if (child == 0) {
		int ends[2];
		signal(SIGPIPE, handler);
		CHECK_EQ(is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends), 0);
		close(ends[0]);
		join_thread(start_thread(function, (void *)(intptr_t)ends[1]));
		_exit(0);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	return status;
}

int main(void)
{
	CHECK_EQ(WTERMSIG(status_of(writes, 0, SIG_DFL)), SIGPIPE);
	CHECK_EQ(status_of(writes, 0, SIG_IGN), 0);
	CHECK_EQ(WTERMSIG(status_of(sends, 1, SIG_DFL)), SIGPIPE);
	CHECK_EQ(status_of(sends, 1, SIG_IGN), 0);
	CHECK_EQ(status_of(sends_quietly, 1, SIG_DFL), 0);
	CHECK_EQ(status_of(sends_datagrams, 1, SIG_DFL), 0);
	return 0;
}
