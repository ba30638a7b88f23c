/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Signal handlers interrupt the waits of main as ever, also while other threads exist: EINTR from
 * what POSIX lets be interrupted, a restart where the handler says SA_RESTART.
 */
#define _GNU_SOURCE
#include "check.h"

#include <poll.h>
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t handled;
static int ends[2];
static sem_t gate;

static void handle(int number)
{
	(void)number;
	handled++;
}

static void handle_and_write(int number)
{
	(void)number;
	handled++;
	if (write(ends[1], "x", 1) != 1)
		_exit(1);
}

static void set_alarm(long first_ms, long then_ms)
{
	struct itimerval timer = { { 0, then_ms * 1000 }, { 0, first_ms * 1000 } };
	CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* In 10 ms, and then each `again_ms`, if that is not 0: on a busy machine the first one may come
 * before the call that it is to end. */
static void start_alarm(long again_ms, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	set_alarm(0, 0);
	handled = 0;
	CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
	set_alarm(10, again_ms);
}

static void *wait_at_gate(void *arg)
{
	sem_wait(&gate);
	return arg;
}

int main(void)
{
	struct timespec duration = { 1000, 0 }, left = { 0, 0 };
	struct pollfd wanted;
	char byte;
	CHECK_EQ(pipe(ends), 0);
	wanted = (struct pollfd){ ends[0], POLLIN, 0 };
	sem_init(&gate, 0, 0);
	/* Workers must not get the signal: heddle's block all, the C library's thread does here. */
	sigset_t alarm_only;
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &alarm_only, NULL), 0);
	pthread_t thread = start_thread(wait_at_gate, NULL);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL), 0);

	start_alarm(50, handle, 0);
	CHECK_ERRNO(nanosleep(&duration, &left), EINTR);
	CHECK(left.tv_sec >= 900);
	start_alarm(50, handle, 0);
	CHECK(sleep(1000) >= 900);
	start_alarm(50, handle, 0);
	CHECK_ERRNO(read(ends[0], &byte, 1), EINTR);
	start_alarm(50, handle, 0);
	CHECK_ERRNO(poll(&wanted, 1, 1000000), EINTR);
	start_alarm(0, handle_and_write, SA_RESTART);
	CHECK_EQ(read(ends[0], &byte, 1), 1);
	CHECK_EQ(handled, 1);

	sem_post(&gate);
	join_thread(thread);
	return 0;
}
