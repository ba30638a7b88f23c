/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Descriptors of signalfd: what the programs that ask them share.
 *
 * Invariant: the calling thread blocks the signals.
 */
#ifndef HEDDLE_TEST_SIGNAL_FD_H
#define HEDDLE_TEST_SIGNAL_FD_H

#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

static inline int make(int signal, int flags)
{
	sigset_t set;

	CHECK_EQ(sigemptyset(&set), 0);
	CHECK_EQ(sigaddset(&set, signal), 0);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | flags);
	CHECK(fd >= 0);
	return fd;
}

static inline void take(int fd, int signal)
{
	struct signalfd_siginfo info;

	CHECK_EQ(read(fd, &info, sizeof(info)), sizeof(info));
	CHECK_EQ(info.ssi_signo, signal);
	CHECK_EQ(info.ssi_code, SI_TKILL);
	CHECK_EQ(info.ssi_pid, getpid());
	CHECK_EQ(info.ssi_uid, getuid());
}

static inline void add(int set, int fd, unsigned events, long data)
{
	struct epoll_event event = { .events = events, .data.u64 = data };

	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
}

static inline void block_all(void)
{
	sigset_t set;

	CHECK_EQ(sigfillset(&set), 0);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
}

#endif
