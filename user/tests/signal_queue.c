/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Signals that carry values come to the thread that they are sent to, real-time ones each, in their
 * order; so do those of timers that name a thread, and what a timer missed is counted.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/syscall.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { VALUES = 200, SENDERS = 4 };

static _Thread_local int mine;
static int ready, seen, last, expired, overruns;
static pid_t number;

static void on_queued(int signal, siginfo_t *info, void *context)
{
	(void)context;
	CHECK(mine);
	CHECK_EQ(info->si_code, SI_QUEUE);
	CHECK_EQ(info->si_pid, getpid());
	CHECK_EQ(info->si_uid, getuid());
	CHECK_EQ(info->si_value.sival_int, add_value(&last, 1) + (signal == SIGRTMIN ? 0 : 1000));
	add_value(&seen, 1);
}

static void on_timer(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	CHECK(mine);
	CHECK_EQ(info->si_code, SI_TIMER);
	CHECK_EQ(info->si_value.sival_int, 4711);
	add_value(&overruns, info->si_overrun);
	add_value(&expired, 1);
}

static void *receives(void *arg)
{
	sigset_t set;
	sigfillset(&set);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	mine = 1;
	number = gettid();
	set_value(&ready, 1);
	await_value(&ready, 2);
	CHECK_EQ(seen, 0);
	/* All that were sent, and the lower number first. */
	sigemptyset(&set);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	CHECK_EQ(seen, 2 * VALUES + 1);
	set_value(&ready, 3);
	while (!*(volatile int *)&expired)
		;
	while (*(volatile int *)&expired < 5)
		usleep(1000);
	sigaddset(&set, SIGRTMIN + 2);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	sleep_ms(30);
	siginfo_t info;
	CHECK_EQ(sigwaitinfo(&set, &info), SIGRTMIN + 2);
	CHECK_EQ(info.si_code, SI_TIMER);
	CHECK(info.si_overrun > 0);
	set_value(&ready, 4);
	await_value(&ready, 5);
	struct timespec soon = { 0, 10000000 };
	while (sigtimedwait(&set, &info, &soon) > 0)
		;
	CHECK_ERRNO(sigtimedwait(&set, &info, &soon), EAGAIN);
	set_value(&ready, 6);
	int sum = 0;
	for (int i = 0; i < SENDERS * VALUES; i++) {
		CHECK_EQ(sigwaitinfo(&set, &info), SIGRTMIN + 2);
		sum += info.si_value.sival_int;
	}
	CHECK_EQ(sum, SENDERS * VALUES * (VALUES + 1) / 2);
	return arg;
}

static void *sends(void *thread)
{
	for (int i = 1; i <= VALUES; i++) {
		union sigval value = { .sival_int = i };
		CHECK_EQ(pthread_sigqueue(*(pthread_t *)thread, SIGRTMIN + 2, value), 0);
		if (i % 16 == 0)
			sched_yield();
	}
	return NULL;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_queued, .sa_flags = SA_SIGINFO };
	sigfillset(&action.sa_mask);
	CHECK_EQ(sigaction(SIGRTMIN, &action, NULL), 0);
	CHECK_EQ(sigaction(SIGRTMIN + 1, &action, NULL), 0);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	action.sa_sigaction = on_timer;
	CHECK_EQ(sigaction(SIGRTMIN + 2, &action, NULL), 0);

	pthread_t thread = start_thread(receives, NULL);
	await_value(&ready, 1);
	/* Pending once, with what came first. */
	CHECK_EQ(pthread_sigqueue(thread, SIGUSR1, (union sigval){ .sival_int = 1001 }), 0);
	CHECK_EQ(pthread_sigqueue(thread, SIGUSR1, (union sigval){ .sival_int = 5 }), 0);
	for (int i = 1; i <= VALUES; i++) {
		union sigval value = { .sival_int = 1001 + VALUES + i };
		CHECK_EQ(pthread_sigqueue(thread, SIGRTMIN + 1, value), 0);
		siginfo_t info = { .si_code = SI_QUEUE };
		info.si_pid = getpid();
		info.si_uid = getuid();
		info.si_value.sival_int = 1 + i;
		CHECK_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), number, SIGRTMIN, &info), 0);
	}
	CHECK_EQ(pthread_sigqueue(thread, 0, (union sigval){ .sival_int = 0 }), 0);
	CHECK_EQ(pthread_sigqueue(thread, 9999, (union sigval){ .sival_int = 0 }), EINVAL);
	set_value(&ready, 2);
	await_value(&ready, 3);

	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 2 };
	event.sigev_value.sival_int = 4711;
	event.sigev_notify_thread_id = number;
	timer_t timer;
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	struct itimerspec every = { { 0, 2000000 }, { 0, 2000000 } };
	CHECK_EQ(timer_settime(timer, 0, &every, NULL), 0);
	await_value(&ready, 4);
	CHECK_EQ(timer_delete(timer), 0);
	set_value(&ready, 5);
	await_value(&ready, 6);

	pthread_t senders[SENDERS];
	for (int i = 0; i < SENDERS; i++)
		senders[i] = start_thread(sends, &thread);
	for (int i = 0; i < SENDERS; i++)
		join_thread(senders[i]);
	join_thread(thread);
	event.sigev_notify_thread_id = 1 << 28;
	CHECK_ERRNO(timer_create(CLOCK_MONOTONIC, &event, &timer), EINVAL);
	return 0;
}
