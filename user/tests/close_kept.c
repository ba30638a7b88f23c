/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A call that waits has its file, whatever becomes of the number: another thread closes that, or
 * puts another file there, while nothing is ready, and what comes for the file later is the call's.
 */
#define _GNU_SOURCE
#include "number_waits.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { TURNS = 6, LARGE = 300000 };

static int ready, over;
static int ends[2];

/* ---- what waits */

static int by_read(int fd)
{
	char byte = 0;
	return read(fd, &byte, 1) == 1 && byte == 'd' ? RIGHT : LATE;
}

static int by_readv(int fd)
{
	char bytes[2] = { 0, 0 };
	struct iovec parts[2] = { { bytes, 1 }, { bytes + 1, 1 } };
	return readv(fd, parts, 2) == 1 && bytes[0] == 'd' ? RIGHT : LATE;
}

static int by_recv(int fd)
{
	char byte = 0;
	return recv(fd, &byte, 1, 0) == 1 && byte == 'd' ? RIGHT : LATE;
}

static int by_recv_all(int fd)
{
	char bytes[4] = "";
	ssize_t got = recv(fd, bytes, 3, MSG_WAITALL);
	return got == 3 && strcmp(bytes, "def") == 0 ? RIGHT : LATE;
}

static int by_recvmsg(int fd)
{
	char byte = 0;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	return recvmsg(fd, &message, 0) == 1 && byte == 'd' ? RIGHT : LATE;
}

static int by_end(int fd)
{
	char byte;
	return read(fd, &byte, 1) == 0 ? RIGHT : LATE;
}

static int by_accept(int fd)
{
	int got = accept(fd, NULL, NULL);
	if (got < 0)
		return LATE;
	close(got);
	return RIGHT;
}

static int by_epoll(int fd)
{
	struct epoll_event event;
	int got = epoll_wait(fd, &event, 1, -1);
	return got == 1 && event.data.u32 == 1234 ? RIGHT : LATE;
}

static char large[LARGE];

static int by_write(int fd)
{
	ssize_t got = write(fd, large, LARGE);
	return got == LARGE ? RIGHT : LATE;
}

static int by_send(int fd)
{
	ssize_t got = send(fd, large, LARGE, MSG_NOSIGNAL);
	return got == LARGE ? RIGHT : LATE;
}

/* ---- what they wait for: ends[0] */

static void open_connection(void)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static void open_pipe(void)
{
	CHECK_EQ(pipe(ends), 0);
}

static void open_pipe_to_write(void)
{
	int both[2];
	CHECK_EQ(pipe(both), 0);
	ends[0] = both[1];
	ends[1] = both[0];
}

static struct sockaddr_in address;

static void open_listener(void)
{
	socklen_t length = sizeof address;
	address = (struct sockaddr_in){ .sin_family = AF_INET };
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(ends[0] >= 0);
	CHECK_EQ(bind(ends[0], (struct sockaddr *)&address, sizeof address), 0);
	CHECK_EQ(listen(ends[0], 5), 0);
	CHECK_EQ(getsockname(ends[0], (struct sockaddr *)&address, &length), 0);
	ends[1] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(ends[1] >= 0);
}

static int in_set[2];

static void open_set(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = 1234 };
	CHECK_EQ(pipe(in_set), 0);
	ends[0] = epoll_create1(0);
	CHECK(ends[0] >= 0);
	CHECK_EQ(epoll_ctl(ends[0], EPOLL_CTL_ADD, in_set[0], &event), 0);
	ends[1] = -1;
}

/* ---- what comes later; false: too late, as it seems */

static int write_data(void)
{
	return write(ends[1], "d", 1) == 1;
}

static int write_parts(void)
{
	if (write(ends[1], "d", 1) != 1)
		return 0;
	sleep_ms(2);
	return write(ends[1], "ef", 2) == 2;
}

static int close_other(void)
{
	CHECK_EQ(close(ends[1]), 0);
	ends[1] = -1;
	return 1;
}

static int connect_to(void)
{
	return connect(ends[1], (struct sockaddr *)&address, sizeof address) == 0;
}

static int write_in_set(void)
{
	ends[1] = in_set[0];
	CHECK_EQ(write(in_set[1], "d", 1), 1);
	CHECK_EQ(close(in_set[1]), 0);
	return 1;
}

static int read_all(void)
{
	char buffer[4096];
	long all = 0;
	for (;;) {
		ssize_t got = read(ends[1], buffer, sizeof buffer);
		CHECK(got >= 0);
		if (got == 0)
			break;
		all += got;
	}
	return all == LARGE;
}

static const struct {
	void (*open)(void);
	int (*wait)(int fd);
	int (*come)(void);
} kinds[] = {
	{ open_connection, by_read, write_data },
	{ open_connection, by_recv, write_data },
	{ open_connection, by_recvmsg, write_data },
	{ open_connection, by_recv_all, write_parts },
	{ open_connection, by_end, close_other },
	{ open_connection, by_poll, write_data },
	{ open_connection, by_poll_of_two, write_data },
	{ open_connection, by_select, write_data },
	{ open_connection, by_select_of_two, write_data },
	{ open_connection, by_send, read_all },
	{ open_pipe, by_read, write_data },
	{ open_pipe, by_readv, write_data },
	{ open_pipe, by_end, close_other },
	{ open_pipe, by_poll, close_other },
	{ open_pipe_to_write, by_write, read_all },
	{ open_listener, by_accept, connect_to },
	{ open_listener, by_poll, connect_to },
	{ open_set, by_epoll, write_in_set },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void *waits(void *kind)
{
	int fd = ends[0];
	set_value(&ready, 1);
	int ended = kinds[(intptr_t)kind].wait(fd);
	set_value(&over, 1);
	return (void *)(intptr_t)ended;
}

static void *closes(void *arg)
{
	for (intptr_t kind = 0; kind < KINDS; kind++) {
		int late = 0, early = 0;
		for (int turn = 0; turn < TURNS; turn++) {
			void *ended;
			int next[2];
			kinds[kind].open();
			CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, next), 0);
			CHECK_EQ(write(next[1], "n", 1), 1);
			set_value(&ready, 0);
			set_value(&over, 0);
			pthread_t thread = start_thread(waits, (void *)kind);
			await_value(&ready, 1);
			sleep_ms(4 + 3 * turn);
			int number = ends[0];
			if (turn % 3 != 2)
				CHECK_EQ(close(number), 0);
			if (turn % 3 == 1)
				CHECK_EQ(dup2(next[0], number), number);
			else if (turn % 3 == 2)
				CHECK_EQ(dup3(next[0], number, O_CLOEXEC), number);
			sleep_ms(3);
			early += over;
			int has_come = kinds[kind].come();
			/* For who writes to the next file. */
			CHECK_EQ(close(next[1]), 0);
			CHECK_EQ(pthread_join(thread, &ended), 0);
			late += !has_come || (intptr_t)ended == LATE;
			if (turn % 3 != 0)
				close(number);
			close(next[0]);
			if (ends[1] >= 0)
				close(ends[1]);
		}
		if (late > TURNS / 2 || early > TURNS / 2)
			fprintf(stderr, "kind %ld: late %d, early %d\n", (long)kind, late, early);
		CHECK(late <= TURNS / 2 && early <= TURNS / 2);
	}
	return arg;
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
	join_thread(start_thread(closes, NULL));
	closes(NULL);
	return 0;
}
