/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Waits for a descriptor whose number gets another file meanwhile.
 */
#ifndef NUMBER_WAITS_H
#define NUMBER_WAITS_H

#include "check.h"
#include <poll.h>
#include <sys/select.h>

/* How a wait may end. Who has begun it too late finds no file, or the next one. */
enum { RIGHT, LATE };

/* What is never ready: its first end. */
static int others[2];

/* These look at the number again when they are woken, and find the next file there or none. */
static inline int by_poll(int fd)
{
	struct pollfd entry = { fd, POLLIN, 0 };
	CHECK_EQ(poll(&entry, 1, -1), 1);
	return RIGHT;
}

static inline int by_poll_of_two(int fd)
{
	struct pollfd entries[] = { { others[0], POLLIN, 0 }, { fd, POLLIN | POLLPRI, 0 } };
	CHECK_EQ(poll(entries, 2, -1), 1);
	CHECK_EQ(entries[0].revents, 0);
	CHECK(entries[1].revents != 0);
	return RIGHT;
}

/* beside: another one to wait for, or -1. */
static inline int select_with(int fd, int beside)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	if (beside >= 0)
		FD_SET(beside, &set);
	int got = select((fd > beside ? fd : beside) + 1, &set, NULL, NULL, NULL);
	CHECK(got == 1 ? FD_ISSET(fd, &set) : errno == EBADF);
	return RIGHT;
}

static inline int by_select(int fd)
{
	return select_with(fd, -1);
}

static inline int by_select_of_two(int fd)
{
	return select_with(fd, others[0]);
}

#endif
