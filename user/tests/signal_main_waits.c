/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The main thread waits in a call with a mask that has more blocked than its usual one: a signal
 * to the process, which only another thread lets through then, is handled there meanwhile.
 */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

enum { WAYS = 4 };

static int handled, waits, done, told, over;

static void handle(int number)
{
	if (number == SIGUSR1)
		add_value(&handled, 1);
}

static void *takes(void *arg)
{
	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST))
		sleep_ms(1);
	return arg;
}

static void *sends(void *main_thread)
{
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &mask, NULL), 0);
	for (int way = 1; way <= WAYS; way++) {
		await_value(&waits, way);
		sleep_ms(50);
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		await_value(&handled, way);
		set_value(&told, way);
		while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < way) {
			CHECK_EQ(pthread_kill(*(pthread_t *)main_thread, SIGUSR2), 0);
			sleep_ms(10);
		}
	}
	return NULL;
}

static void wait_in(int way, int set)
{
	struct timespec minute = { 60, 0 };
	struct epoll_event event;
	sigset_t mask;
	sigfillset(&mask);
	sigdelset(&mask, SIGUSR2);
	switch (way) {
	case 1:
		CHECK_ERRNO(ppoll(NULL, 0, &minute, &mask), EINTR);
		break;
	case 2:
		CHECK_ERRNO(pselect(0, NULL, NULL, NULL, &minute, &mask), EINTR);
		break;
	case 3:
		CHECK_ERRNO(epoll_pwait(set, &event, 1, 60000, &mask), EINTR);
		break;
	case 4:
		CHECK_ERRNO(sigsuspend(&mask), EINTR);
		break;
	}
}

int main(void)
{
	struct sigaction action = { .sa_handler = handle };
	pthread_t self = pthread_self();
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
	int set = epoll_create1(0);
	CHECK(set >= 0);
	pthread_t taker = start_thread(takes, NULL), sender = start_thread(sends, &self);
	for (int way = 1; way <= WAYS; way++) {
		set_value(&waits, way);
		/* One that was sent for the last wait may end this one. */
		do
			wait_in(way, set);
		while (__atomic_load_n(&told, __ATOMIC_SEQ_CST) < way);
		set_value(&done, way);
	}
	join_thread(sender);
	set_value(&over, 1);
	join_thread(taker);
	return 0;
}
