/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Sleeps, and waits for signals, that are given no memory fail with EFAULT; they do not fault. Nor
 * does what they tell, when that has no place.
 */
#define _GNU_SOURCE
#include "check.h"
#include "kill_until.h"
#include "pending.h"
#include <signal.h>
#include <sys/mman.h>
#include <threads.h>

static int rounds, done;
static void *none;

static void on_signal(int number)
{
	(void)number;
}

/* At once. */
static void sleeps(void)
{
	struct timespec short_time = { 0, 1000 }, invalid = { 0, 2000000000 };
	CHECK_ERRNO(nanosleep(none, NULL), EFAULT);
	CHECK_ERRNO(nanosleep(NULL, NULL), EFAULT);
	CHECK_EQ(nanosleep(&short_time, none), 0);
	CHECK_ERRNO(nanosleep(&invalid, none), EINVAL);
	clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID };
	for (int index = 0; index < 3; index++)
		CHECK_EQ(clock_nanosleep(clocks[index], 0, none, NULL), EFAULT);
	CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, none, NULL), EFAULT);
	/* What is wrong with the clock goes first. */
	CHECK_EQ(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, none, NULL), EINVAL);
	CHECK_EQ(clock_nanosleep(999, 0, none, NULL), EINVAL);
	CHECK_EQ(clock_nanosleep(999, 0, &invalid, NULL), EINVAL);
	CHECK_EQ(thrd_sleep(none, NULL), -2);
}

/* In memory that is not the thread's stack. */
static void elsewhere(void)
{
	static struct timespec time = { 0, 1000 };
	struct timespec *own = malloc(sizeof(*own));
	*own = time;
	CHECK_EQ(nanosleep(&time, own), 0);
	CHECK_EQ(nanosleep(own, NULL), 0);
	free(own);
}

static void waits(void)
{
	struct timespec short_time = { 0, 1000 }, invalid = { 0, 2000000000 };
	sigset_t set;
	int number;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK_ERRNO(sigtimedwait(none, NULL, &short_time), EFAULT);
	CHECK_ERRNO(sigtimedwait(none, NULL, &invalid), EFAULT);
	CHECK_ERRNO(sigtimedwait(&set, NULL, none), EFAULT);
	CHECK_ERRNO(sigwaitinfo(none, NULL), EFAULT);
	CHECK_EQ(sigwait(none, &number), EFAULT);
	CHECK_ERRNO(sigsuspend(none), EFAULT);
	CHECK_EQ(raise(SIGUSR2), 0);
	CHECK_ERRNO(sigtimedwait(&set, NULL, none), EFAULT);
	CHECK(is_pending(SIGUSR2));
	/* It is taken before it can't be told. */
	CHECK_ERRNO(sigtimedwait(&set, none, &short_time), EFAULT);
	CHECK(!is_pending(SIGUSR2));
	CHECK_EQ(raise(SIGUSR2), 0);
	CHECK_ERRNO(sigwaitinfo(&set, none), EFAULT);
	CHECK(!is_pending(SIGUSR2));
}

/* What is left when a handler has run. */
static void *interrupted(void *arg)
{
	struct timespec time = { 1000, 0 }, left;
	CHECK_ERRNO(nanosleep(&time, none), EFAULT);
	add_value(&rounds, 1);
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, none), EFAULT);
	add_value(&rounds, 1);
	CHECK_EQ(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &time, none), EFAULT);
	add_value(&rounds, 1);
	left.tv_sec = 0;
	CHECK_EQ(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &time, &left), EINTR);
	CHECK(left.tv_sec >= 900 && left.tv_sec <= 1000);
	add_value(&rounds, 1);
	CHECK_EQ(thrd_sleep(&time, none), -2);
	add_value(&rounds, 1);
	/* Of a moment nothing is told. */
	clock_gettime(CLOCK_MONOTONIC, &time);
	time.tv_sec += 1000;
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, none), EINTR);
	add_value(&rounds, 1);
	set_value(&done, 1);
	return arg;
}

static void *body(void *arg)
{
	sleeps();
	elsewhere();
	waits();
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, interrupted, NULL), 0);
	kill_until(thread, SIGUSR1, &done, 1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(rounds, 6);
	return arg;
}

int main(void)
{
	none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(none != MAP_FAILED);
	struct sigaction action = { .sa_handler = on_signal };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, body, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	/* So it is for the main thread. */
	sleeps();
	elsewhere();
	waits();
	return 0;
}
