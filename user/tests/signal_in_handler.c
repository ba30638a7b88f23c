/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A handler sends a thread a signal by its number, also when it has come in the middle of sending
 * that thread another one.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

enum { ALARMS = 2000 };

static int number, alarms, is_over;

static void tell(int signal)
{
	CHECK_EQ(syscall(SYS_tgkill, getpid(), number, signal), 0);
}

static void takes_notice(int signal)
{
	(void)signal;
}

static void on_alarm(int signal)
{
	(void)signal;
	tell(SIGUSR1);
	alarms++;
}

static void *listens(void *arg)
{
	set_value(&number, (int)syscall(SYS_gettid));
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST))
		usleep(1000);
	return arg;
}

int main(void)
{
	struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { { 0, 0 }, { 0, 0 } };
	CHECK(signal(SIGUSR1, takes_notice) != SIG_ERR);
	CHECK(signal(SIGUSR2, takes_notice) != SIG_ERR);
	CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
	pthread_t thread = start_thread(listens, NULL);
	while (__atomic_load_n(&number, __ATOMIC_SEQ_CST) == 0)
		usleep(1000);
	CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
	while (__atomic_load_n(&alarms, __ATOMIC_SEQ_CST) < ALARMS)
		tell(SIGUSR2);
	CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
	set_value(&is_over, 1);
	join_thread(thread);
	return 0;
}
