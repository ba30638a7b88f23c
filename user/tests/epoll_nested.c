/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The program's own epoll sets, of every kind, as threads wait for them: sets in sets, told of
 * edges and once, shared by waiters of which one is to be woken, polled like other descriptors, and
 * with so many events that one call does not tell of all.
 */
#define _GNU_SOURCE
#include "events.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

enum { MANY = 300, AT_A_TIME = 16, WAITERS = 4, MESSAGES = 200, LONG_MS = 50000, SHORT_MS = 30 };

static int new_set(void)
{
	int set = epoll_create1(EPOLL_CLOEXEC);
	CHECK(set >= 0);
	return set;
}

static void change(int set, int how, int fd, unsigned kinds)
{
	struct epoll_event event = { .events = kinds, .data.fd = fd };
	CHECK_EQ(epoll_ctl(set, how, fd, &event), 0);
}

static void add(int set, int fd, unsigned kinds)
{
	change(set, EPOLL_CTL_ADD, fd, kinds);
}

/* What one event of a set is about, or -1 if there is none in time. */
static int next(int set, int limit_ms)
{
	struct epoll_event event;
	int count = epoll_wait(set, &event, 1, limit_ms);
	CHECK(count == 0 || count == 1);
	return count ? event.data.fd : -1;
}

static void levels(unsigned kinds, int depth)
{
	int fd = new_event(), sets[8];
	sets[0] = new_set();
	add(sets[0], fd, EPOLLIN);
	for (int i = 1; i < depth; i++) {
		sets[i] = new_set();
		add(sets[i], sets[i - 1], EPOLLIN | (i + 1 == depth ? kinds : 0));
	}
	int top = sets[depth - 1], below = depth > 1 ? sets[depth - 2] : fd;
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(next(top, 0), -1);
		pthread_t teller = later(fd);
		CHECK_EQ(next(top, LONG_MS), below);
		join_thread(teller);
		/* Nothing was taken: a level is told of again, an edge is not. */
		CHECK_EQ(next(top, kinds & EPOLLET ? SHORT_MS : 0), kinds & EPOLLET ? -1 : below);
		CHECK_EQ(next(sets[0], 0), fd);
		struct pollfd entry = { .fd = sets[0], .events = POLLIN };
		CHECK_EQ(poll(&entry, 1, LONG_MS), 1);
		hear(fd);
		CHECK_EQ(poll(&entry, 1, 0), 0);
		CHECK_EQ(next(top, 0), -1);
		CHECK_EQ(next(top, SHORT_MS), -1);
	}
	for (int i = 0; i < depth; i++)
		close(sets[i]);
	close(fd);
}

static void once(void)
{
	int fd = new_event(), inner = new_set(), outer = new_set();
	add(inner, fd, EPOLLIN | EPOLLONESHOT);
	add(outer, inner, EPOLLIN | EPOLLONESHOT);
	pthread_t teller = later(fd);
	CHECK_EQ(next(outer, LONG_MS), inner);
	join_thread(teller);
	CHECK_EQ(next(outer, SHORT_MS), -1);
	CHECK_EQ(next(inner, 0), fd);
	CHECK_EQ(next(inner, SHORT_MS), -1);
	/* Armed anew, both tell of what is there. */
	change(inner, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT);
	change(outer, EPOLL_CTL_MOD, inner, EPOLLIN | EPOLLONESHOT);
	CHECK_EQ(next(outer, LONG_MS), inner);
	CHECK_EQ(next(inner, 0), fd);
	hear(fd);
	/* And while a thread waits. */
	change(outer, EPOLL_CTL_MOD, inner, EPOLLIN);
	teller = later(fd);
	CHECK_EQ(next(outer, SHORT_MS), -1);
	join_thread(teller);
	change(inner, EPOLL_CTL_MOD, fd, EPOLLIN);
	CHECK_EQ(next(outer, LONG_MS), inner);
	close(fd);
	close(inner);
	close(outer);
}

/* ---- several waiters */

static int shared_ends[2], got, ended;
static unsigned shared_kinds;

static void *takes(void *arg)
{
	int own = new_set();
	add(own, shared_ends[0], EPOLLIN | shared_kinds);
	for (;;) {
		char byte;
		CHECK_EQ(next(own, LONG_MS), shared_ends[0]);
		/* All that is there: of an edge nobody is told twice. */
		ssize_t count;
		while ((count = read(shared_ends[0], &byte, 1)) == 1)
			add_value(&got, 1);
		if (count == 0)
			break;
		CHECK_EQ(errno, EAGAIN);
	}
	add_value(&ended, 1);
	close(own);
	return arg;
}

static void several(unsigned kinds)
{
	pthread_t waiters[WAITERS];
	shared_kinds = kinds;
	got = ended = 0;
	CHECK_EQ(pipe2(shared_ends, O_CLOEXEC | O_NONBLOCK), 0);
	for (int i = 0; i < WAITERS; i++)
		waiters[i] = start_thread(takes, NULL);
	for (int i = 0; i < MESSAGES; i++) {
		CHECK_EQ(write(shared_ends[1], "x", 1), 1);
		if (i % 16 == 0)
			sleep_ms(1);
	}
	while (__atomic_load_n(&got, __ATOMIC_SEQ_CST) < MESSAGES)
		sleep_ms(1);
	/* The end wakes them all. */
	close(shared_ends[1]);
	for (int i = 0; i < WAITERS; i++)
		join_thread(waiters[i]);
	CHECK_EQ(got, MESSAGES);
	CHECK_EQ(ended, WAITERS);
	close(shared_ends[0]);
}

/* ---- many events */

static void many(void)
{
	int set = new_set(), fds[MANY], seen = 0;
	char told[MANY] = { 0 };
	struct epoll_event events[AT_A_TIME];
	for (int i = 0; i < MANY; i++) {
		fds[i] = new_event();
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };
		CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event), 0);
		tell(fds[i]);
	}
	/* They take turns, though nobody reads. */
	for (int calls = 0; seen < MANY; calls++) {
		CHECK(calls < MANY);
		int count = epoll_wait(set, events, AT_A_TIME, LONG_MS);
		CHECK(count > 0);
		for (int i = 0; i < count; i++)
			seen += !told[events[i].data.u32]++;
	}
	/* What is over is told of no more, and hides nothing that comes. */
	for (int i = 0; i < MANY; i++)
		hear(fds[i]);
	CHECK_EQ(epoll_wait(set, events, AT_A_TIME, 0), 0);
	pthread_t teller = later(fds[MANY - 1]);
	CHECK_EQ(epoll_wait(set, events, AT_A_TIME, LONG_MS), 1);
	CHECK_EQ(events[0].data.u32, MANY - 1);
	join_thread(teller);
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	close(set);
}

static void *all(void *arg)
{
	for (int depth = 1; depth <= 4; depth++) {
		levels(0, depth);
		if (depth > 1)
			levels(EPOLLET, depth);
	}
	once();
	many();
	return arg;
}

int main(void)
{
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		threads[i] = start_thread(all, NULL);
	for (int i = 0; i < 3; i++)
		join_thread(threads[i]);
	several(0);
	several(EPOLLEXCLUSIVE);
	several(EPOLLET);
	several(EPOLLEXCLUSIVE | EPOLLET);
	return 0;
}
