/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls at the edge of what they are for: reads of a terminal that is not to wait, select with more
 * descriptors than there can be, polls where no descriptor is left, and transfers of nothing.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <termios.h>

static void *terminal(void *arg)
{
	int master, slave;
	struct termios mode;
	char byte;

	CHECK_EQ(openpty(&master, &slave, NULL, NULL, NULL), 0);
	CHECK_EQ(tcgetattr(slave, &mode), 0);
	cfmakeraw(&mode);
	for (int tenths = 0; tenths < 3; tenths += 2) {
		mode.c_cc[VMIN] = 0;
		mode.c_cc[VTIME] = (cc_t)tenths;
		CHECK_EQ(tcsetattr(slave, TCSANOW, &mode), 0);
		long begin = now_ms();
		CHECK_EQ(read(slave, &byte, 1), 0);
		CHECK(now_ms() - begin >= tenths * 95);
		CHECK_EQ(write(master, "x", 1), 1);
		CHECK_EQ(read(slave, &byte, 1), 1);
	}
	close(master);
	close(slave);
	return arg;
}

static void *selects(void *arg)
{
	int counts[] = { getdtablesize(), 1 << 20, 1 << 30, FD_SETSIZE }, ends[2];
	/* What lies behind the set is no set. */
	struct {
		fd_set set;
		char behind[256];
	} sets;

	CHECK_EQ(pipe(ends), 0);
	for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct timeval soon = { 0, 20000 };
		memset(&sets, 0xff, sizeof sets);
		FD_ZERO(&sets.set);
		FD_SET(ends[0], &sets.set);
		CHECK_EQ(select(counts[i], &sets.set, NULL, NULL, &soon), 0);
		FD_SET(ends[0], &sets.set);
		CHECK_EQ(write(ends[1], "x", 1), 1);
		CHECK_EQ(select(counts[i], &sets.set, NULL, NULL, NULL), 1);
		CHECK(FD_ISSET(ends[0], &sets.set));
		char byte;
		CHECK_EQ(read(ends[0], &byte, 1), 1);
	}
	close(ends[0]);
	close(ends[1]);
	return arg;
}

static void *without_descriptors(void *arg)
{
	int ends[2], other[2];
	struct rlimit limit, none;

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(pipe(other), 0);
	struct pollfd fds[] = { { .fd = ends[0], .events = POLLIN },
				{ .fd = other[0], .events = POLLIN } };
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ 0, limit.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	long begin = now_ms();
	/* The kernel asks no more of poll() than there may be descriptors. */
	CHECK_EQ(poll(fds, 2, 30), -1);
	CHECK_EQ(errno, EINVAL);
	none.rlim_cur = 2;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	CHECK_EQ(poll(fds, 2, 30), 0);
	CHECK(now_ms() - begin >= 28);
	CHECK_EQ(write(other[1], "x", 1), 1);
	CHECK_EQ(poll(fds, 2, -1), 1);
	CHECK_EQ(fds[1].revents, POLLIN);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return arg;
}

static void *nothing(void *arg)
{
	char byte;
	int ends[2], counter = eventfd(0, 0), folder = open("/", O_RDONLY | O_DIRECTORY);

	CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	CHECK_EQ(write(ends[0], "", 0), 0);
	CHECK_EQ(write(ends[0], "x", 1), 1);
	CHECK_EQ(read(ends[1], &byte, 1), 0);
	CHECK_EQ(read(ends[1], &byte, 1), 1);
	CHECK_ERRNO(read(counter, &byte, 0), EINVAL);
	CHECK_ERRNO(read(folder, &byte, 0), EISDIR);
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(read(ends[0], &byte, 0), 0);
	CHECK_EQ(write(ends[1], &byte, 0), 0);
	CHECK_ERRNO(read(-1, &byte, 0), EBADF);
	return arg;
}

int main(void)
{
	void *(*kinds[])(void *) = { terminal, selects, nothing, without_descriptors };

	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
		join_thread(start_thread(kinds[i], NULL));
	return 0;
}
