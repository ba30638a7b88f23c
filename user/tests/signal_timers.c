/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A timer that names a thread goes on to send: also when one of its signals came while the same one
 * was pending, or was ignored. After the end of the thread it sends to nobody.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/syscall.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { LATER = 4, PAUSE_US = 30000 };

static int handled;
static timer_t left_behind;

static void handle(int signal)
{
	(void)signal;
	__atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static timer_t make_timer(int signal)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal };
	timer_t timer;
	event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	return timer;
}

static void start_timer(timer_t timer, long every_ns)
{
	struct itimerspec at = { { 0, every_ns }, { 0, 1000000 } };
	CHECK_EQ(timer_settime(timer, 0, &at, NULL), 0);
}

static void check_sends(timer_t timer)
{
	int before = __atomic_load_n(&handled, __ATOMIC_SEQ_CST);
	start_timer(timer, 0);
	for (int ms = 0; __atomic_load_n(&handled, __ATOMIC_SEQ_CST) == before; ms++) {
		CHECK(ms < 40000);
		usleep(1000);
	}
}

static void *goes_on(void *arg)
{
	sigset_t set;
	timer_t timer = make_timer(SIGUSR1);
	check_sends(timer);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	start_timer(timer, 0);
	usleep(PAUSE_US);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	check_sends(timer);
	CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
	start_timer(timer, 0);
	usleep(PAUSE_US);
	CHECK(signal(SIGUSR1, handle) != SIG_ERR);
	check_sends(timer);
	CHECK_EQ(timer_delete(timer), 0);
	return arg;
}

static void *leaves_timer(void *arg)
{
	left_behind = make_timer(SIGUSR2);
	start_timer(left_behind, 1000000);
	return arg;
}

static void *sleeps(void *arg)
{
	usleep(PAUSE_US);
	return arg;
}

int main(void)
{
	pthread_t threads[LATER];
	CHECK(signal(SIGUSR1, handle) != SIG_ERR);
	CHECK(signal(SIGUSR2, handle) != SIG_ERR);
	join_thread(start_thread(goes_on, NULL));
	join_thread(start_thread(leaves_timer, NULL));
	int before = __atomic_load_n(&handled, __ATOMIC_SEQ_CST);
	for (int i = 0; i < LATER; i++)
		threads[i] = start_thread(sleeps, NULL);
	for (int i = 0; i < LATER; i++)
		join_thread(threads[i]);
	CHECK_EQ(__atomic_load_n(&handled, __ATOMIC_SEQ_CST), before);
	CHECK_EQ(timer_delete(left_behind), 0);
	return 0;
}
