/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What a handler is told of masks that ends a call with a mask of its own (sigsuspend, ppoll,
 * pselect, epoll_pwait): in its context is the mask of before the call, which the handler may
 * change; it runs with the call's, and so does another one that the first lets through.
 */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <ucontext.h>

enum { WAYS = 4 };

static int set_of_events, change, masks_all;
static sigset_t none;
static int first, second;

static int has(const sigset_t *set, int number)
{
	return sigismember(set, number) == 1;
}

static int blocks(int number)
{
	sigset_t now;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	return has(&now, number);
}

static void on_first(int number, siginfo_t *info, void *place)
{
	ucontext_t *context = place;
	CHECK_EQ(number, SIGUSR1);
	CHECK_EQ(info->si_signo, SIGUSR1);
	CHECK(has(&context->uc_sigmask, SIGUSR1));
	CHECK(has(&context->uc_sigmask, SIGUSR2));
	CHECK(!has(&context->uc_sigmask, SIGHUP));
	CHECK(blocks(SIGUSR1));
	CHECK_EQ(blocks(SIGHUP), masks_all);
	if (change) {
		sigdelset(&context->uc_sigmask, SIGUSR1);
		sigaddset(&context->uc_sigmask, SIGHUP);
	}
	first++;
}

static void on_second(int number)
{
	CHECK_EQ(number, SIGUSR2);
	CHECK(blocks(SIGUSR2));
	second++;
}

static int waits(int way)
{
	struct epoll_event event;
	switch (way) {
	case 0:
		return sigsuspend(&none);
	case 1:
		return ppoll(NULL, 0, NULL, &none);
	case 2:
		return pselect(0, NULL, NULL, NULL, NULL, &none);
	default:
		return epoll_pwait(set_of_events, &event, 1, -1, &none);
	}
}

static void *sends(void *to)
{
	sleep_ms(10);
	CHECK_EQ(pthread_kill(*(pthread_t *)to, SIGUSR1), 0);
	return NULL;
}

static void set_first(int all)
{
	struct sigaction action = { .sa_sigaction = on_first, .sa_flags = SA_SIGINFO };
	masks_all = all;
	if (all)
		sigfillset(&action.sa_mask);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

static void block_both(void)
{
	sigset_t both = none;
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &both, NULL), 0);
	first = second = 0;
}

/* Pending before the call, or sent while it waits. */
static void is_told(int way, int pending)
{
	pthread_t self = pthread_self(), sender;
	block_both();
	if (pending)
		CHECK_EQ(raise(SIGUSR1), 0);
	else
		sender = start_thread(sends, &self);
	CHECK_ERRNO(waits(way), EINTR);
	CHECK_EQ(first, 1);
	CHECK_EQ(blocks(SIGUSR1), !change);
	CHECK_EQ(blocks(SIGHUP), change);
	CHECK(blocks(SIGUSR2));
	if (!pending)
		join_thread(sender);
}

static void two_at_once(int way)
{
	sigset_t pending;
	for (int all = 0; all < 2; all++) {
		block_both();
		set_first(all);
		CHECK_EQ(raise(SIGUSR1), 0);
		CHECK_EQ(raise(SIGUSR2), 0);
		CHECK_ERRNO(waits(way), EINTR);
		CHECK_EQ(first, 1);
		CHECK_EQ(second, !all);
		CHECK_EQ(sigpending(&pending), 0);
		CHECK_EQ(has(&pending, SIGUSR2), all);
		CHECK(blocks(SIGUSR2));
		if (all)
			CHECK_ERRNO(waits(way), EINTR);
		CHECK_EQ(second, 1);
	}
	set_first(0);
}

static void *body(void *arg)
{
	for (int way = 0; way < WAYS; way++) {
		for (int round = 0; round < 4; round++) {
			change = round / 2;
			is_told(way, round % 2);
		}
		change = 0;
		two_at_once(way);
	}
	return arg;
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_second };
	sigemptyset(&none);
	set_of_events = epoll_create1(EPOLL_CLOEXEC);
	CHECK(set_of_events >= 0);
	CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
	set_first(0);
	body(NULL);
	join_thread(start_thread(body, NULL));
	return 0;
}
