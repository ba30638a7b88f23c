/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Tokens go round through descriptors of every kind, and threads wait for them by every call that
 * waits; none is lost, and none comes twice.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { WAYS = 12, THREADS = 4 * WAYS, TOKENS = 16, ROUNDS = 200, LAST = -1 };

struct seat {
	int in, out, idle[2], seen;
};
static struct seat seats[THREADS];

static int get_by_poll(struct seat *seat, int count)
{
	struct pollfd fds[2] = { { seat->in, POLLIN, 0 }, { seat->idle[0], POLLIN, 0 } };
	CHECK_EQ(poll(fds, (nfds_t)count, -1), 1);
	CHECK_EQ(fds[0].revents, POLLIN);
	return 0;
}

static int get_by_select(struct seat *seat, struct timeval *limit)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(seat->in, &set);
	FD_SET(seat->idle[0], &set);
	int top = seat->in > seat->idle[0] ? seat->in : seat->idle[0];
	CHECK_EQ(select(top + 1, &set, NULL, NULL, limit), 1);
	CHECK(FD_ISSET(seat->in, &set) && !FD_ISSET(seat->idle[0], &set));
	return 0;
}

static int get_by_epoll(struct seat *seat)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = seat->in };
	int set = epoll_create1(EPOLL_CLOEXEC);
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, seat->in, &event), 0);
	event.data.fd = -1;
	CHECK_EQ(epoll_wait(set, &event, 1, -1), 1);
	CHECK_EQ(event.data.fd, seat->in);
	return close(set);
}

static int get(struct seat *seat, int way)
{
	int token;
	struct iovec parts[2] = { { &token, 2 }, { (char *)&token + 2, 2 } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	struct timeval limit = { 60, 0 };
	struct timespec moment = { 60, 0 };
	struct pollfd one = { seat->in, POLLIN, 0 };
	switch (way % WAYS) {
	case 0:
		CHECK_EQ(recv(seat->in, &token, 4, 0), 4);
		return token;
	case 1:
		CHECK_EQ(recv(seat->in, &token, 4, MSG_WAITALL), 4);
		return token;
	case 2:
		CHECK_EQ(recvmsg(seat->in, &message, 0), 4);
		return token;
	case 3:
		CHECK_EQ(recvfrom(seat->in, &token, 4, 0, NULL, NULL), 4);
		return token;
	case 4:
		CHECK_EQ(readv(seat->in, parts, 2), 4);
		return token;
	case 5:
		get_by_poll(seat, 1);
		break;
	case 6:
		get_by_poll(seat, 2);
		break;
	case 7:
		get_by_select(seat, NULL);
		break;
	case 8:
		get_by_select(seat, &limit);
		break;
	case 9:
		get_by_epoll(seat);
		break;
	case 10:
		CHECK_EQ(ppoll(&one, 1, &moment, NULL), 1);
		break;
	}
	CHECK_EQ(read(seat->in, &token, 4), 4);
	return token;
}

static void put(struct seat *seat, int token, int way)
{
	struct iovec part = { &token, 4 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	int is_socket = (int)(seat - seats + 1) % THREADS % WAYS < 4;
	if (is_socket && way % 3 == 0)
		CHECK_EQ(send(seat->out, &token, 4, 0), 4);
	else if (is_socket && way % 3 == 1)
		CHECK_EQ(sendmsg(seat->out, &message, 0), 4);
	else if (way % 2)
		CHECK_EQ(writev(seat->out, &part, 1), 4);
	else
		CHECK_EQ(write(seat->out, &token, 4), 4);
}

static void *passes(void *place)
{
	struct seat *seat = place;
	int way = (int)(seat - seats), token;
	while ((token = get(seat, way)) != LAST) {
		CHECK(token >= 0 && token < TOKENS);
		seat->seen++;
		put(seat, token, way + token);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++) {
		/* Seat i reads from the one before it; its first four ways need a socket. */
		int ends[2], kind = i % WAYS;
		if (kind < 4)
			CHECK_EQ(socketpair(AF_UNIX, kind % 2 ? SOCK_STREAM : SOCK_SEQPACKET, 0,
					    ends), 0);
		else
			CHECK_EQ(pipe(ends), 0);
		seats[i].in = ends[0];
		seats[(i + THREADS - 1) % THREADS].out = ends[1];
		CHECK_EQ(pipe(seats[i].idle), 0);
	}
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(passes, &seats[i]);
	for (int token = 0; token < TOKENS; token++)
		put(&seats[token % THREADS], token, token);
	/* The first seat has seen each token so often, or a little more, when all went round. */
	while (__atomic_load_n(&seats[0].seen, __ATOMIC_SEQ_CST) < TOKENS * ROUNDS)
		sleep_ms(1);
	for (int i = 0; i < THREADS; i++)
		put(&seats[i], LAST, 0);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	int least = seats[0].seen, most = seats[0].seen;
	for (int i = 0; i < THREADS; i++) {
		least = seats[i].seen < least ? seats[i].seen : least;
		most = seats[i].seen > most ? seats[i].seen : most;
	}
	CHECK(least >= TOKENS * (ROUNDS - 2) && most - least <= 2 * TOKENS);
	return 0;
}
