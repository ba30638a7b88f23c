/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls that wait with a mask of their own (sigsuspend, ppoll, pselect, epoll_pwait) are ended by
 * each signal that only this mask lets through, at whatever moment it comes; what is ready already
 * is told first, and the signal stays pending.
 */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

enum { ROUNDS = 120 };

static _Thread_local volatile int handled;
static int turn, quit;
static sigset_t none, usr1;

static void on_signal(int number)
{
	sigset_t now;
	CHECK_EQ(number, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	CHECK(sigismember(&now, SIGUSR1));
	handled++;
}

static int wait_once(int how, int set, struct pollfd *entry)
{
	struct epoll_event event;
	fd_set readable;
	switch (how % 4) {
	case 0:
		return sigsuspend(&none);
	case 1:
		return ppoll(entry, 1, NULL, &none);
	case 2:
		FD_ZERO(&readable);
		FD_SET(entry->fd, &readable);
		return pselect(entry->fd + 1, &readable, NULL, NULL, NULL, &none);
	default:
		return epoll_pwait(set, &event, 1, -1, &none);
	}
}

static void *waits(void *arg)
{
	int ends[2], set = epoll_create1(0);
	CHECK_EQ(pipe(ends), 0);
	struct pollfd entry = { .fd = ends[0], .events = POLLIN };
	struct epoll_event event = { .events = EPOLLIN };
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), 0);
	for (int i = 1; i <= ROUNDS; i++) {
		set_value(&turn, i);
		/* The signal may come before the call, in it, or while it begins. */
		for (volatile int spin = 0; spin < (i * 7919) % 20000; spin++)
			;
		CHECK_ERRNO(wait_once(i, set, &entry), EINTR);
		CHECK_EQ(handled, i);
	}
	set_value(&quit, 1);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	CHECK_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	for (int how = 1; how < 4; how++)
		CHECK_EQ(wait_once(how, set, &entry), 1);
	CHECK_EQ(handled, ROUNDS);
	sigset_t pending, now;
	CHECK_EQ(sigpending(&pending), 0);
	CHECK(sigismember(&pending, SIGUSR1));
	/* With nothing ready it ends even a call that does not wait. */
	char byte;
	CHECK_EQ(read(ends[0], &byte, 1), 1);
	struct timespec at_once = { 0, 0 };
	CHECK_ERRNO(ppoll(&entry, 1, &at_once, &none), EINTR);
	CHECK_EQ(handled, ROUNDS + 1);
	CHECK_EQ(ppoll(&entry, 1, &at_once, &none), 0);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	CHECK(sigismember(&now, SIGUSR1));
	return arg;
}

int main(void)
{
	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	pthread_t thread = start_thread(waits, NULL);
	for (int i = 1; i <= ROUNDS; i++) {
		await_value(&turn, i);
		for (volatile int spin = 0; spin < (i * 104729) % 20000; spin++)
			;
		/* To the thread and to the process in turns. */
		CHECK_EQ(i / 4 % 2 ? pthread_kill(thread, SIGUSR1) : kill(getpid(), SIGUSR1), 0);
	}
	await_value(&quit, 1);
	join_thread(thread);
	return 0;
}
