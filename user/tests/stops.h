/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * stops.h - threads are stopped by a signal and go on, again and again, as collectors do it.
 */
#ifndef STOPS_H
#define STOPS_H

#include "check.h"
#include <signal.h>

static sem_t handled;

/* Until so many signals have been handled, for long enough on any machine. */
static void await(int signals)
{
	struct timespec until;
	CHECK_EQ(clock_gettime(CLOCK_REALTIME, &until), 0);
	until.tv_sec += 5;
	for (int i = 0; i < signals; i++)
		CHECK_EQ(sem_timedwait(&handled, &until), 0);
}

static void on_stop(int signal)
{
	sigset_t mask;
	(void)signal;
	CHECK_EQ(sigfillset(&mask), 0);
	CHECK_EQ(sigdelset(&mask, SIGUSR2), 0);
	CHECK_EQ(sem_post(&handled), 0);
	CHECK_ERRNO(sigsuspend(&mask), EINTR);
	CHECK_EQ(sem_post(&handled), 0);
}

static void on_go(int signal)
{
	(void)signal;
}

static void prepare_stops(void)
{
	struct sigaction action = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
	CHECK_EQ(sigaddset(&action.sa_mask, SIGUSR2), 0);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	action.sa_handler = on_go;
	CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
}

static void send_all(const pthread_t *threads, int count, int number)
{
	for (int i = 0; i < count; i++)
		CHECK_EQ(pthread_kill(threads[i], number), 0);
	await(count);
}

static void stop_them(const pthread_t *threads, int count, int times)
{
	for (int i = 0; i < times; i++) {
		CHECK_EQ(usleep(1000), 0);
		send_all(threads, count, SIGUSR1);
		send_all(threads, count, SIGUSR2);
	}
}

#endif
