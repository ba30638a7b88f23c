/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Signals by a descriptor: a thread that reads a signalfd gets those that were sent to the process
 * and to itself; and timers that call a function in a thread (SIGEV_THREAD), which may use
 * everything that threads use.
 */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#define TIMES 50

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static int calls, value;

static void *sends(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		union sigval number = { .sival_int = i };
		CHECK_EQ(sigqueue(getpid(), SIGRTMIN + 1, number), 0);
		if (i % 8 == 0)
			sched_yield();
	}
	return arg;
}

static void *reads(void *arg)
{
	sigset_t mask;
	struct signalfd_siginfo info;

	sigemptyset(&mask);
	sigaddset(&mask, SIGRTMIN + 1);
	sigaddset(&mask, SIGUSR1);
	int fd = signalfd(-1, &mask, SFD_CLOEXEC);
	CHECK(fd >= 0);
	pthread_t sender = start_thread(sends, NULL);
	for (int i = 0; i < TIMES; i++) {
		struct pollfd entry = { .fd = fd, .events = POLLIN };
		if (i % 2)
			CHECK_EQ(poll(&entry, 1, 50000), 1);
		CHECK_EQ(read(fd, &info, sizeof info), sizeof info);
		CHECK_EQ(info.ssi_signo, SIGRTMIN + 1);
		CHECK_EQ(info.ssi_int, i);
	}
	join_thread(sender);
	close(fd);
	return arg;
}

static void calls_back(union sigval given)
{
	pthread_mutex_lock(&lock);
	calls++;
	value = given.sival_int;
	pthread_cond_signal(&called);
	pthread_mutex_unlock(&lock);
}

static void *waits(void *arg)
{
	timer_t timer;
	struct sigevent event = { .sigev_notify = SIGEV_THREAD };
	struct itimerspec often = { { 0, 2000000 }, { 0, 2000000 } };

	event.sigev_value.sival_int = 77;
	event.sigev_notify_function = calls_back;
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
	pthread_mutex_lock(&lock);
	while (calls < 20) {
		struct timespec end = moment(CLOCK_REALTIME, 50000);
		CHECK_EQ(pthread_cond_timedwait(&called, &lock, &end), 0);
	}
	CHECK_EQ(value, 77);
	pthread_mutex_unlock(&lock);
	CHECK_EQ(timer_delete(timer), 0);
	return arg;
}

int main(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGRTMIN + 1);
	sigaddset(&mask, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &mask, NULL), 0);
	join_thread(start_thread(reads, NULL));
	join_thread(start_thread(waits, NULL));
	return 0;
}
