/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A timer of a thread's that is deleted as it expires sends its own signal or none, and what it
 * carries is its own.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { THREADS = 2, TURNS = 3000, AFTER_NS = 20000, SPREAD_NS = 60000 };

static int ended;
static _Thread_local long turn, mine;

static void on_timer(int signal, siginfo_t *info, void *context)
{
	(void)context;
	CHECK_EQ(signal, SIGUSR1);
	CHECK_EQ(info->si_code, SI_TIMER);
	/* It may come late, but from no other thread's timer. */
	CHECK_EQ(info->si_value.sival_int % THREADS, mine);
	CHECK(info->si_value.sival_int / THREADS <= turn);
}

static long now_ns(void)
{
	struct timespec now;
	CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void *makes_timers(void *index)
{
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &mask, NULL), 0);
	mine = (long)(intptr_t)index;
	for (turn = 1; turn <= TURNS; turn++) {
		struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
		struct itimerspec once = { .it_value = { 0, AFTER_NS + turn * 977 % SPREAD_NS } };
		timer_t timer;
		event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
		event.sigev_value.sival_int = (int)(turn * THREADS + mine);
		CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
		CHECK_EQ(timer_settime(timer, 0, &once, NULL), 0);
		for (long end = now_ns() + SPREAD_NS; now_ns() < end;)
			;
		CHECK_EQ(timer_delete(timer), 0);
	}
	add_value(&ended, 1);
	return NULL;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_timer, .sa_flags = SA_SIGINFO };
	pthread_t threads[THREADS];
	sigset_t all, others;

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	sigfillset(&all);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(makes_timers, (void *)(intptr_t)i);
	sigfillset(&others);
	sigdelset(&others, SIGUSR1);
	while (__atomic_load_n(&ended, __ATOMIC_SEQ_CST) < THREADS) {
		struct timespec soon = { 0, 10000000 };
		siginfo_t info;
		CHECK_ERRNO(sigtimedwait(&others, &info, &soon), EAGAIN);
	}
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	return 0;
}
