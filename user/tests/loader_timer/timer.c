/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Has a thread wait for a timer while it is loaded.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static void *waits(void *arg)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	const struct itimerspec soon = { .it_value.tv_nsec = 1000000 };
	sigset_t wanted;
	timer_t timer;
	int signal;
	event.sigev_notify_thread_id = gettid();
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGUSR1);
	if (pthread_sigmask(SIG_BLOCK, &wanted, NULL) ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &soon, NULL) || sigwait(&wanted, &signal) ||
	    signal != SIGUSR1 || timer_delete(timer))
		abort();
	return arg;
}

__attribute__((constructor)) static void begins(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, waits, NULL) || pthread_join(thread, NULL))
		abort();
}
