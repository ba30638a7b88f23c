/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * events.h - descriptors that are ready when the test says so, for programs about waits for them.
 */
#ifndef EVENTS_H
#define EVENTS_H

#include "check.h"
#include <sys/eventfd.h>

static int new_event(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK(fd >= 0);
	return fd;
}

static void tell(int fd)
{
	CHECK_EQ(eventfd_write(fd, 1), 0);
}

static void hear(int fd)
{
	eventfd_t value;
	CHECK_EQ(eventfd_read(fd, &value), 0);
}

static void *tells_later(void *fd)
{
	sleep_ms(10);
	tell((int)(intptr_t)fd);
	return NULL;
}

/* A thread that tells of it in a moment. */
static pthread_t later(int fd)
{
	return start_thread(tells_later, (void *)(intptr_t)fd);
}

#endif
