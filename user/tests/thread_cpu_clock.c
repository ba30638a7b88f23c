/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread's CPU time is its own: by its clock, by that clock's name for others, and by getrusage.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SPINS_MS = 200, SLEEPERS = 4 };
static int spins, done, read_all;

static long clock_us(clockid_t clock)
{
	struct timespec now;

	CHECK_EQ(clock_gettime(clock, &now), 0);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static long own_us(void)
{
	return clock_us(CLOCK_THREAD_CPUTIME_ID);
}

static long usage_us(void)
{
	struct rusage used;

	CHECK_EQ(getrusage(RUSAGE_THREAD, &used), 0);
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec +
	       used.ru_stime.tv_usec;
}

/* Its thread has a clock that goes on. */
static void in_a_child(void)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0) {
		clockid_t own;
		struct rusage used;

		CHECK_EQ(pthread_getcpuclockid(pthread_self(), &own), 0);
		CHECK_EQ(syscall(SYS_getrusage, RUSAGE_THREAD, &used), 0);
		for (long first = clock_us(own); clock_us(own) - first < 2000;)
			;
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static void *computes(void *arg)
{
	long last = own_us(), now;

	(void)arg;
	CHECK(last < SPINS_MS * 1000);
	for (set_value(&spins, 1); last < SPINS_MS * 1000; last = now) {
		now = own_us();
		CHECK(now >= last);
		if (now / 5000 != last / 5000)
			sched_yield();
	}
	struct timespec by_number;
	CHECK_EQ(syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &by_number), 0);
	CHECK(by_number.tv_sec * 1000000 + by_number.tv_nsec / 1000 >= last);
	/* The kernel scales what it knows by ticks. */
	CHECK(usage_us() >= last / 2);
	CHECK(clock_us(CLOCK_PROCESS_CPUTIME_ID) >= last);
	in_a_child();
	set_value(&done, 1);
	/* Its clock ends with it. */
	while (!__atomic_load_n(&read_all, __ATOMIC_SEQ_CST))
		sleep_ms(1);
	return NULL;
}

static void *sleeps(void *arg)
{
	long last = 0, now;

	(void)arg;
	/* Longer each time: many sleeps take CPU time, too. */
	for (long ms = 2; !__atomic_load_n(&done, __ATOMIC_SEQ_CST); ms += ms / 2) {
		sleep_ms(ms);
		now = own_us();
		CHECK(now >= last);
		last = now;
	}
	CHECK(own_us() < SPINS_MS * 500);
	CHECK(usage_us() < SPINS_MS * 500);
	return NULL;
}

int main(void)
{
	pthread_t sleeper[SLEEPERS], spinner;
	clockid_t clock, own;
	struct timespec unused;
	long last = 0, now, before;

	for (int i = 0; i < SLEEPERS; i++)
		sleeper[i] = start_thread(sleeps, NULL);
	spinner = start_thread(computes, NULL);
	CHECK_EQ(pthread_getcpuclockid(spinner, &clock), 0);
	CHECK_EQ(pthread_getcpuclockid(pthread_self(), &own), 0);
	before = own_us();
	await_value(&spins, 1);
	for (long ms = 2; !__atomic_load_n(&done, __ATOMIC_SEQ_CST) && last < SPINS_MS * 300;
	     ms += ms / 2) {
		now = clock_us(clock);
		CHECK(now >= last);
		last = now;
		sleep_ms(ms);
	}
	CHECK_EQ(clock_getres(clock, &unused), 0);
	set_value(&read_all, 1);
	/* This thread has slept. */
	CHECK(own_us() - before < SPINS_MS * 500);
	CHECK(clock_us(own) <= own_us());
	for (int i = 0; i < SLEEPERS; i++)
		join_thread(sleeper[i]);
	join_thread(spinner);
	CHECK_ERRNO(clock_gettime(clock, &unused), EINVAL);
	return 0;
}
