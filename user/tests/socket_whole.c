/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A blocking call moves all of what it was given through a stream: each message of a sendmmsg, and
 * what a receive with MSG_WAITALL asked for. Where its one timeout ends it, or the peer goes, it
 * says how much, and a socket raises no SIGPIPE for the rest, but a pipe does. Why a connection
 * was broken off is left for the next call.
 */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { MUCH = 8 << 20, SMALL = 1 << 16, TCP = 0, UNIX = 1, PIPE = 2 };

static char *bytes;
static int ends[2], stopped, pipes;

/* ends[0] is written to, or waits; ends[1] is the peer's. */
static void open_ends(int kind)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof address;
	int swapped[2], small = SMALL;

	if (kind == UNIX) {
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		return;
	}
	if (kind == PIPE) {
		CHECK_EQ(pipe(swapped), 0);
		ends[0] = swapped[1];
		ends[1] = swapped[0];
		return;
	}
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
	CHECK_EQ(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	CHECK_EQ(listen(listener, 1), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
	CHECK_EQ(connect(ends[0], (struct sockaddr *)&address, sizeof address), 0);
	ends[1] = accept(listener, NULL, NULL);
	CHECK(ends[1] >= 0);
	close(listener);
}

static void close_ends(void)
{
	close(ends[0]);
	close(ends[1]);
}

static void set_timeout(int option)
{
	struct timeval limit = { 0, 300000 };
	CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, option, &limit, sizeof limit), 0);
}

/* ---- messages */

static struct mmsghdr to_send[3];

static void prepare_messages(void)
{
	static struct iovec parts[3];
	for (int i = 0; i < 3; i++) {
		parts[i] = (struct iovec){ bytes + i * (MUCH / 4), MUCH / 4 };
		to_send[i] = (struct mmsghdr){ { .msg_iov = &parts[i], .msg_iovlen = 1 }, 0 };
	}
}

static void *reads_all(void *arg)
{
	static unsigned char buffer[1 << 16];
	long all = 0, got;

	while ((got = read(ends[1], buffer, sizeof buffer)) > 0)
		for (long i = 0; i < got; i++, all++)
			CHECK_EQ(buffer[i], (unsigned char)bytes[all]);
	CHECK_EQ(got, 0);
	CHECK_EQ(all, MUCH / 4 * 3);
	return arg;
}

static void *sends_each_whole(void *arg)
{
	CHECK_EQ(sendmmsg(ends[0], to_send, 3, 0), 3);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(to_send[i].msg_len, MUCH / 4);
	CHECK_EQ(shutdown(ends[0], SHUT_WR), 0);
	return arg;
}

/* Of messages nobody reads, the first goes in part, and is the last. */
static void *sends_a_part(void *arg)
{
	set_timeout(SO_SNDTIMEO);
	CHECK_EQ(sendmmsg(ends[0], to_send, 3, 0), 1);
	CHECK(to_send[0].msg_len > 0 && to_send[0].msg_len < MUCH / 4);
	return arg;
}

static void messages(int kind)
{
	prepare_messages();
	open_ends(kind);
	pthread_t reader = start_thread(reads_all, NULL);
	join_thread(start_thread(sends_each_whole, NULL));
	join_thread(reader);
	close_ends();
	prepare_messages();
	open_ends(kind);
	join_thread(start_thread(sends_a_part, NULL));
	close_ends();
}

/* ---- receives */

static long by_recv(char *buffer)
{
	return recv(ends[0], buffer, 30, MSG_WAITALL);
}

static long by_recvfrom(char *buffer)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof address;
	long got = recvfrom(ends[0], buffer, 30, MSG_WAITALL, (struct sockaddr *)&address, &length);
	/* A pair has no names, nor has what is connected. */
	CHECK_EQ(length, 0);
	return got;
}

static long by_recvmsg(char *buffer)
{
	struct iovec parts[] = { { buffer, 7 }, { buffer + 7, 0 }, { buffer + 7, 23 } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3 };
	long got = recvmsg(ends[0], &message, MSG_WAITALL);
	CHECK_EQ(parts[0].iov_len, 7);
	CHECK_EQ(parts[2].iov_len, 23);
	CHECK_EQ(message.msg_iovlen, 3);
	return got;
}

static long by_recvmmsg(char *buffer)
{
	struct iovec parts[] = { { buffer, 12 }, { buffer + 12, 18 } };
	struct mmsghdr list[] = { { { .msg_iov = &parts[0], .msg_iovlen = 1 }, 0 },
				  { { .msg_iov = &parts[1], .msg_iovlen = 1 }, 0 } };
	CHECK_EQ(recvmmsg(ends[0], list, 2, MSG_WAITALL, NULL), 2);
	return list[0].msg_len + list[1].msg_len;
}

static long (*const receives[])(char *) = { by_recv, by_recvfrom, by_recvmsg, by_recvmmsg };

static void *sends_tens(void *arg)
{
	for (int i = 0; i < 3; i++) {
		sleep_ms(30);
		CHECK_EQ(send(ends[1], "0123456789", 10, 0), 10);
	}
	return arg;
}

static void *receives_whole(void *arg)
{
	char buffer[31] = "";
	CHECK_EQ((*(long (*const *)(char *))arg)(buffer), 30);
	CHECK_EQ(strcmp(buffer, "012345678901234567890123456789"), 0);
	return NULL;
}

/* Descriptors have their place among the bytes: the receive ends with those they came with. */
static void send_descriptor(void)
{
	struct iovec part = { "0123456789", 10 };
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1,
				  .msg_control = &control, .msg_controllen = sizeof control };
	memcpy(CMSG_DATA(&control.header), &ends[0], sizeof(int));
	CHECK_EQ(sendmsg(ends[1], &message, 0), 10);
}

static void *receives_descriptor(void *arg)
{
	char buffer[30];
	struct iovec part = { buffer, 30 };
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1,
				  .msg_control = &control, .msg_controllen = sizeof control };
	int fd;
	CHECK_EQ(recvmsg(ends[0], &message, MSG_WAITALL), 20);
	CHECK_EQ(message.msg_controllen, CMSG_SPACE(sizeof(int)));
	CHECK_EQ(control.header.cmsg_type, SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(message.msg_flags & MSG_CTRUNC, 0);
	return arg;
}

static void *receives_a_part(void *arg)
{
	long got = recv(ends[0], bytes, 100, MSG_WAITALL);
	CHECK(got > 0 && got < 100);
	return arg;
}

/* Less often than a timeout would need. */
static void *trickles(void *arg)
{
	while (!__atomic_load_n(&stopped, __ATOMIC_SEQ_CST)) {
		CHECK_EQ(send(ends[1], "x", 1, 0), 1);
		sleep_ms(100);
	}
	return arg;
}

static void receive(int kind)
{
	for (unsigned i = 0; i < sizeof receives / sizeof *receives; i++) {
		open_ends(kind);
		pthread_t sender = start_thread(sends_tens, NULL);
		join_thread(start_thread(receives_whole, (void *)&receives[i]));
		join_thread(sender);
		close_ends();
	}
	open_ends(kind);
	set_timeout(SO_RCVTIMEO);
	stopped = 0;
	CHECK_EQ(send(ends[1], "x", 1, 0), 1);
	pthread_t sender = start_thread(trickles, NULL);
	join_thread(start_thread(receives_a_part, NULL));
	set_value(&stopped, 1);
	join_thread(sender);
	close_ends();
	if (kind != UNIX)
		return;
	open_ends(kind);
	pthread_t receiver = start_thread(receives_descriptor, NULL);
	CHECK_EQ(send(ends[1], "0123456789", 10, 0), 10);
	sleep_ms(50);
	send_descriptor();
	CHECK_EQ(send(ends[1], "0123456789", 10, 0), 10);
	join_thread(receiver);
	close_ends();
}

/* ---- sends */

static struct iovec halves[2];

static long by_write(void)
{
	return write(ends[0], bytes, MUCH);
}

static long by_writev(void)
{
	return writev(ends[0], halves, 2);
}

static long by_send(void)
{
	return send(ends[0], bytes, MUCH, 0);
}

static long by_sendto(void)
{
	return sendto(ends[0], bytes, MUCH, 0, NULL, 0);
}

static long by_sendmsg(void)
{
	struct msghdr message = { .msg_iov = halves, .msg_iovlen = 2 };
	return sendmsg(ends[0], &message, 0);
}

static long (*const sends[])(void) = { by_write, by_writev, by_send, by_sendto, by_sendmsg };

static void on_pipe(int number)
{
	(void)number;
	add_value(&pipes, 1);
}

static void *sends_part(void *arg)
{
	long sent = (*(long (*const *)(void))arg)();
	if (sent <= 0)
		CHECK_EQ(sent, MUCH - 1);
	CHECK(sent < MUCH);
	sleep_ms(10);
	return NULL;
}

static void *reads_slowly(void *arg)
{
	static char buffer[1 << 14];
	while (!__atomic_load_n(&stopped, __ATOMIC_SEQ_CST)) {
		CHECK(recv(ends[1], buffer, sizeof buffer, MSG_DONTWAIT) != 0);
		sleep_ms(20);
	}
	return arg;
}

/* One timeout for all of it, however slowly it is taken. */
static void send_in_time(long (*const *call)(void))
{
	open_ends(TCP);
	set_timeout(SO_SNDTIMEO);
	stopped = 0;
	pthread_t reader = start_thread(reads_slowly, NULL);
	join_thread(start_thread(sends_part, (void *)call));
	set_value(&stopped, 1);
	join_thread(reader);
	close_ends();
}

/* Until something has come of what is sent. */
static void await_arrival(void)
{
	for (int there = 0; there == 0;) {
		sleep_ms(1);
		CHECK_EQ(ioctl(ends[1], FIONREAD, &there), 0);
	}
}

static void peer_goes(int kind, long (*const *call)(void))
{
	open_ends(kind);
	pipes = 0;
	pthread_t sender = start_thread(sends_part, (void *)call);
	await_arrival();
	sleep_ms(50);
	close(ends[1]);
	join_thread(sender);
	CHECK_EQ(pipes, kind == PIPE);
	close(ends[0]);
}

static void break_off(void)
{
	struct linger at_once = { 1, 0 };
	CHECK_EQ(setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
	close(ends[1]);
}

static void *is_told_later(void *arg)
{
	char buffer[30];
	if (arg)
		sends_part(arg);
	else
		CHECK_EQ(recv(ends[0], buffer, sizeof buffer, MSG_WAITALL), 10);
	CHECK_ERRNO(arg ? send(ends[0], "x", 1, 0) : recv(ends[0], buffer, 1, 0), ECONNRESET);
	return NULL;
}

static void is_broken_off(long (*const *call)(void))
{
	open_ends(TCP);
	pipes = 0;
	pthread_t thread = start_thread(is_told_later, (void *)call);
	if (call)
		await_arrival();
	else
		CHECK_EQ(send(ends[1], "0123456789", 10, 0), 10);
	sleep_ms(200);
	break_off();
	join_thread(thread);
	CHECK_EQ(pipes, 0);
	close(ends[0]);
}

int main(void)
{
	bytes = malloc(MUCH);
	CHECK(bytes);
	for (int i = 0; i < MUCH; i++)
		bytes[i] = (char)(i >> 10 ^ i);
	halves[0] = (struct iovec){ bytes, MUCH / 2 };
	halves[1] = (struct iovec){ bytes + MUCH / 2, MUCH / 2 };
	CHECK(signal(SIGPIPE, on_pipe) != SIG_ERR);

	for (int kind = TCP; kind <= UNIX; kind++) {
		messages(kind);
		receive(kind);
	}
	is_broken_off(NULL);
	for (unsigned i = 0; i < sizeof sends / sizeof *sends; i++) {
		send_in_time(&sends[i]);
		is_broken_off(&sends[i]);
		for (int kind = TCP; kind <= (i < 2 ? PIPE : UNIX); kind++)
			peer_goes(kind, &sends[i]);
	}
	return 0;
}
