/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A call that waits with a signal mask is ended by a signal that only this mask lets through; where
 * it is not to wait, poll and select are, and epoll_wait is not. No handler runs where something is
 * ready.
 */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>

static int caught, done;

static void catches(int signal)
{
	(void)signal;
	add_value(&caught, 1);
}

static void *waits(void *arg)
{
	sigset_t none;
	sigemptyset(&none);
	struct pollfd nothing = { .fd = -1 };
	CHECK_ERRNO(ppoll(&nothing, 1, NULL, &none), EINTR);
	set_value(&done, 1);
	CHECK_ERRNO(pselect(0, NULL, NULL, NULL, NULL, &none), EINTR);
	set_value(&done, 2);
	struct epoll_event event;
	int set = epoll_create1(0);
	CHECK_ERRNO(epoll_pwait(set, &event, 1, -1, &none), EINTR);
	set_value(&done, 3);
	struct timespec soon = { 0, 10000000 };
	CHECK_EQ(ppoll(&nothing, 1, &soon, &none), 0);
	return arg;
}

/* One that was sent and is held back; how often it was caught since the last one. */
static int send_again(void)
{
	int before = caught;
	caught = 0;
	CHECK_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	return before;
}

static void *does_not_wait(void *arg)
{
	sigset_t none;
	sigemptyset(&none);
	struct epoll_event event = { .events = EPOLLIN };
	struct timespec now = { 0, 0 }, soon = { 0, 1 };
	int set = epoll_create1(EPOLL_CLOEXEC), fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
	struct pollfd entry = { .fd = fd, .events = POLLIN };
	fd_set bits;
	FD_ZERO(&bits);
	FD_SET(fd, &bits);
	send_again();
	CHECK_EQ(epoll_pwait(set, &event, 1, 0, &none), 0);
	CHECK_EQ(send_again(), 0);
	CHECK_EQ(epoll_pwait2(set, &event, 1, &now, &none), 0);
	CHECK_EQ(send_again(), 0);
	CHECK_ERRNO(epoll_pwait2(set, &event, 1, &soon, &none), EINTR);
	CHECK_EQ(send_again(), 1);
	CHECK_ERRNO(ppoll(&entry, 1, &now, &none), EINTR);
	CHECK_EQ(send_again(), 1);
	CHECK_ERRNO(pselect(fd + 1, &bits, NULL, NULL, &now, &none), EINTR);
	CHECK(FD_ISSET(fd, &bits));
	CHECK_EQ(send_again(), 1);
	CHECK_EQ(eventfd_write(fd, 1), 0);
	CHECK_EQ(epoll_pwait(set, &event, 1, -1, &none), 1);
	CHECK_EQ(ppoll(&entry, 1, NULL, &none), 1);
	CHECK_EQ(pselect(fd + 1, &bits, NULL, NULL, NULL, &none), 1);
	CHECK_EQ(send_again(), 0);
	sigset_t held;
	CHECK_EQ(sigpending(&held), 0);
	CHECK(sigismember(&held, SIGUSR1));
	CHECK_ERRNO(ppoll(NULL, 0, NULL, &none), EINTR);
	CHECK_EQ(caught, 1);
	return arg;
}

int main(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	struct sigaction action = { .sa_handler = catches };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	pthread_t thread = start_thread(waits, NULL);
	for (int round = 1; round <= 3; round++) {
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		await_value(&done, round);
	}
	join_thread(thread);
	CHECK_EQ(caught, 3);
	join_thread(start_thread(does_not_wait, NULL));
	return 0;
}
