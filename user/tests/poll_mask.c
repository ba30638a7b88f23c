/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A call that waits with a signal mask is ended by a signal that only this mask lets through.
 */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
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
	return 0;
}
