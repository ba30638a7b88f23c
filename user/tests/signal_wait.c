/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread waits for signals that the whole process has blocked.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>

static sigset_t set;

static void *waits(void *arg)
{
	int signal = 0;
	CHECK_EQ(sigwait(&set, &signal), 0);
	CHECK_EQ(signal, SIGUSR1);
	siginfo_t info;
	CHECK_EQ(sigwaitinfo(&set, &info), SIGUSR2);
	CHECK_EQ(info.si_pid, getpid());
	struct timespec soon = { 0, 20000000 };
	CHECK_ERRNO(sigtimedwait(&set, &info, &soon), EAGAIN);
	return arg;
}

int main(void)
{
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	pthread_t thread = start_thread(waits, NULL);
	sleep_ms(20);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	sleep_ms(20);
	CHECK_EQ(kill(getpid(), SIGUSR2), 0);
	join_thread(thread);
	return 0;
}
