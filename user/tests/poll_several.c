/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that wait for several descriptors at once: for some that others wait for as well, for the
 * same one twice, for nothing but its end, for many, for such as are closed or replaced meanwhile,
 * and for sets in sets as deep as they go. No descriptor's number is taken while they wait.
 */
#define _GNU_SOURCE
#include "events.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

enum { LONG_MS = 50000, SHORT_MS = 30, MANY = 300, SHARING = 8, ROUNDS = 300, DEPTH = 5,
       LOOKS = 200 };

/* Which of `count` descriptors that one waits for to read is told of. */
static void waits_for_one_of(int count)
{
	int fds[MANY];
	struct pollfd entries[MANY];
	for (int i = 0; i < count; i++)
		entries[i] = (struct pollfd){ .fd = fds[i] = new_event(), .events = POLLIN };
	/* The first, one in the middle, the last; each twice. */
	for (int i = 0; i < 6; i++) {
		int told = i / 2 == 0 ? 0 : i / 2 == 1 ? count / 2 : count - 1;
		pthread_t teller = later(fds[told]);
		CHECK_EQ(poll(entries, count, LONG_MS), 1);
		for (int k = 0; k < count; k++)
			CHECK_EQ(entries[k].revents, k == told ? POLLIN : 0);
		join_thread(teller);
		hear(fds[told]);
		CHECK_EQ(poll(entries, count, i < 2 ? SHORT_MS : 0), 0);
	}
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

static void same_twice(void)
{
	int ends[2], other = new_event();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	struct pollfd entries[] = {
		{ .fd = ends[0], .events = POLLPRI },
		{ .fd = other, .events = POLLIN },
		{ .fd = -1, .events = POLLIN },
		{ .fd = ends[0], .events = POLLIN },
		{ .fd = ends[0], .events = POLLIN | POLLPRI },
	};
	CHECK_EQ(poll(entries, 5, SHORT_MS), 0);
	pthread_t teller = later(ends[1]);
	CHECK_EQ(poll(entries, 5, LONG_MS), 2);
	CHECK_EQ(entries[0].revents, 0);
	CHECK_EQ(entries[3].revents, POLLIN);
	CHECK_EQ(entries[4].revents, POLLIN);
	join_thread(teller);
	close(ends[0]);
	close(ends[1]);
	close(other);
}

static void *closes_later(void *fd)
{
	sleep_ms(10);
	CHECK_EQ(close((int)(intptr_t)fd), 0);
	return NULL;
}

/* What nobody asks for is told of all the same, alone and beside another. */
static void only_its_end(void)
{
	int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	CHECK(file >= 0);
	for (int count = 1; count <= 2; count++) {
		int ends[2];
		CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
		struct pollfd entries[] = { { .fd = ends[0] }, { .fd = file } };
		CHECK_EQ(poll(entries, count, SHORT_MS), 0);
		pthread_t closer = start_thread(closes_later, (void *)(intptr_t)ends[1]);
		CHECK_EQ(poll(entries, count, LONG_MS), 1);
		CHECK_EQ(entries[0].revents, POLLHUP);
		join_thread(closer);
		close(ends[0]);
	}
	close(file);
}

/* One whose file goes on by another number, and whose own number is soon another file's. */
static void replaced(void)
{
	for (int i = 0; i < 20; i++) {
		int one = new_event(), two = new_event();
		struct pollfd entries[] = { { .fd = one, .events = POLLIN },
					    { .fd = two, .events = POLLIN } };
		CHECK_EQ(poll(entries, 2, 1), 0);
		int kept = dup(one);
		CHECK(kept >= 0);
		int new = new_event();
		CHECK_EQ(dup2(new, one), one);
		tell(kept);
		CHECK_EQ(poll(entries, 2, 5), 0);
		pthread_t teller = later(new);
		CHECK_EQ(poll(entries, 2, LONG_MS), 1);
		CHECK_EQ(entries[0].revents, POLLIN);
		join_thread(teller);
		CHECK_EQ(dup2(kept, one), one);
		CHECK_EQ(poll(entries, 2, LONG_MS), 1);
		close(one);
		close(two);
		close(kept);
		close(new);
	}
}

/* A set at the bottom of as many as the kernel allows is polled like other descriptors. */
static void deep(void)
{
	int fd = new_event(), other = new_event(), sets[DEPTH];
	for (int i = 0; i < DEPTH; i++) {
		struct epoll_event event = { .events = EPOLLIN };
		CHECK((sets[i] = epoll_create1(EPOLL_CLOEXEC)) >= 0);
		CHECK_EQ(epoll_ctl(sets[i], EPOLL_CTL_ADD, i ? sets[i - 1] : fd, &event), 0);
	}
	struct pollfd entries[] = { { .fd = sets[DEPTH - 1], .events = POLLIN },
				    { .fd = other, .events = POLLIN } };
	for (int count = 1; count <= 2; count++) {
		CHECK_EQ(poll(entries, count, SHORT_MS), 0);
		pthread_t teller = later(fd);
		CHECK_EQ(poll(entries, count, LONG_MS), 1);
		CHECK_EQ(entries[0].revents, POLLIN);
		join_thread(teller);
		hear(fd);
	}
	fd_set read;
	FD_ZERO(&read);
	FD_SET(sets[DEPTH - 1], &read);
	FD_SET(other, &read);
	pthread_t teller = later(fd);
	CHECK_EQ(select(FD_SETSIZE, &read, NULL, NULL, NULL), 1);
	CHECK(FD_ISSET(sets[DEPTH - 1], &read));
	join_thread(teller);
	for (int i = 0; i < DEPTH; i++)
		close(sets[i]);
	close(fd);
	close(other);
}

static void *all(void *arg)
{
	int counts[] = { 2, 3, 16, 17, 33, MANY };
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		waits_for_one_of(counts[i]);
	same_twice();
	only_its_end();
	replaced();
	deep();
	return arg;
}

/* ---- what several wait for */

static int shared[2][2], taken, is_over[2];

/* Takes what comes by one of both, whoever else waits for them, or until nothing more does. */
static void *takes(void *arg)
{
	short extra = (intptr_t)arg % 2 ? POLLPRI : 0;
	struct pollfd entries[] = { { .fd = shared[0][0], .events = POLLIN | extra },
				    { .fd = shared[1][0], .events = POLLIN } };
	while (entries[0].fd >= 0 || entries[1].fd >= 0) {
		CHECK(poll(entries, 2, LONG_MS) > 0);
		for (int i = 0; i < 2; i++) {
			char byte;
			if (entries[i].fd < 0 || !entries[i].revents)
				continue;
			ssize_t count = read(entries[i].fd, &byte, 1);
			if (count == 1)
				add_value(&taken, 1);
			else if (count == 0)
				entries[i].fd = -1;
			else
				CHECK_EQ(errno, EAGAIN);
		}
	}
	add_value(is_over, 1);
	return NULL;
}

static void *writes(void *arg)
{
	int i = (int)(intptr_t)arg;
	for (int round = 0; round < ROUNDS; round++) {
		CHECK_EQ(write(shared[i][1], "x", 1), 1);
		if (round % 8 == 0)
			sleep_ms(1);
	}
	close(shared[i][1]);
	return NULL;
}

static void several_threads(void)
{
	pthread_t threads[SHARING + 2];
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pipe2(shared[i], O_CLOEXEC | O_NONBLOCK), 0);
	for (int i = 0; i < SHARING; i++)
		threads[i] = start_thread(takes, (void *)(intptr_t)i);
	for (int i = 0; i < 2; i++)
		threads[SHARING + i] = start_thread(writes, (void *)(intptr_t)i);
	for (int i = 0; i < SHARING + 2; i++)
		join_thread(threads[i]);
	CHECK_EQ(taken, 2 * ROUNDS);
	CHECK_EQ(*is_over, SHARING);
}

/* ---- what ends a wait */

static void catches(int signal)
{
	(void)signal;
}

static int waiting;

static void *is_interrupted(void *arg)
{
	struct pollfd entries[] = { { .fd = new_event(), .events = POLLIN },
				    { .fd = new_event(), .events = POLLIN } };
	add_value(&waiting, 1);
	CHECK_ERRNO(poll(entries, 2, LONG_MS), EINTR);
	close(entries[1].fd);
	tell(entries[0].fd);
	CHECK_EQ(poll(entries, 1, LONG_MS), 1);
	entries[0].events = 0;
	entries[1].fd = new_event();
	add_value(&waiting, 1);
	/* One more signal may have been on its way. */
	while (poll(entries, 2, -1) != 0)
		CHECK_EQ(errno, EINTR);
	CHECK(!"it was cancelled");
	return arg;
}

static void ended(void)
{
	struct sigaction action = { .sa_handler = catches };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	pthread_t thread = start_thread(is_interrupted, NULL);
	await_value(&waiting, 1);
	while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) == 1) {
		sleep_ms(10);
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		sleep_ms(20);
	}
	sleep_ms(10);
	CHECK_EQ(pthread_cancel(thread), 0);
	void *result;
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
}

/* ---- numbers of descriptors */

static int may_begin, is_done;

static void *waits_shortly(void *arg)
{
	struct pollfd entries[] = { { .fd = new_event(), .events = POLLIN },
				    { .fd = new_event(), .events = POLLIN } };
	add_value(&waiting, 1);
	await_value(&may_begin, 1);
	while (!__atomic_load_n(&is_done, __ATOMIC_SEQ_CST))
		CHECK_EQ(poll(entries, 2, 1), 0);
	return arg;
}

static int free_number(void)
{
	int number = dup(0);
	CHECK(number >= 0);
	CHECK_EQ(close(number), 0);
	return number;
}

/* The lowest free number is the same whether threads wait or not. */
static void *looks_at_numbers(void *arg)
{
	int higher = 0;
	waiting = 0;
	pthread_t threads[SHARING];
	for (int i = 0; i < SHARING; i++)
		threads[i] = start_thread(waits_shortly, NULL);
	await_value(&waiting, SHARING);
	int first = free_number();
	set_value(&may_begin, 1);
	for (int i = 0; i < LOOKS; i++) {
		sleep_ms(1);
		/* Some may be taken for good meanwhile. */
		higher += free_number() >= first + SHARING / 2;
	}
	CHECK(higher < LOOKS / 10);
	set_value(&is_done, 1);
	for (int i = 0; i < SHARING; i++)
		join_thread(threads[i]);
	return arg;
}

int main(void)
{
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		threads[i] = start_thread(all, NULL);
	for (int i = 0; i < 3; i++)
		join_thread(threads[i]);
	several_threads();
	ended();
	join_thread(start_thread(looks_at_numbers, NULL));
	return 0;
}
