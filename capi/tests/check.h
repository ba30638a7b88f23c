/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * check.h - what every C test program of heddle shares.
 *
 * A program tests one behaviour and exits 0 (holds), 1 (does not) or 77 (cannot be tested here,
 * with the reason on standard output). It is compiled twice: against the C library, which shows
 * that the test asks what POSIX promises, and with -include heddle/pthread.h against libheddle.
 * ON_HEDDLE tells which. Loops that wait for another thread yield: user-level threads of one
 * worker are not preempted.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef HEDDLE_PTHREAD_H
#define ON_HEDDLE 1
#else
#define ON_HEDDLE 0
#endif

#define CHECK(condition)                                                                          \
	do {                                                                                      \
		if (!(condition))                                                                 \
			check_failed(__FILE__, __LINE__, #condition, 0, 0, 0);                    \
	} while (0)

/* Both sides as numbers, so that a failure says what came instead. */
#define CHECK_EQ(got, want)                                                                       \
	do {                                                                                      \
		long got_ = (long)(got), want_ = (long)(want);                                    \
		if (got_ != want_)                                                                \
			check_failed(__FILE__, __LINE__, #got " == " #want, 1, got_, want_);      \
	} while (0)

/* A call that must return -1 with this errno. */
#define CHECK_ERRNO(call, number)                                                                 \
	do {                                                                                      \
		errno = 0;                                                                        \
		CHECK_EQ(call, -1);                                                               \
		CHECK_EQ(errno, number);                                                          \
	} while (0)

#define SKIP(reason)                                                                              \
	do {                                                                                      \
		printf("skip: %s\n", reason);                                                     \
		fflush(stdout);                                                                   \
		_exit(77);                                                                        \
	} while (0)

__attribute__((unused, noreturn)) static void check_failed(const char *file, int line,
							    const char *what, int numbers,
							    long got, long want)
{
	int number = errno;
	if (numbers && got == -1)
		fprintf(stderr, "%s:%d: %s: got -1, want %ld; errno is %d\n", file, line, what, want,
			number);
	else if (numbers)
		fprintf(stderr, "%s:%d: %s: got %ld, want %ld\n", file, line, what, got, want);
	else
		fprintf(stderr, "%s:%d: %s: false\n", file, line, what);
	_exit(1);
}

/* errno numbers of the calls under test stay visible: these helpers keep errno. */
__attribute__((unused)) static void sleep_ms(long ms)
{
	int saved = errno;
	struct timespec duration = { ms / 1000, ms % 1000 * 1000000 };
	nanosleep(&duration, NULL);
	errno = saved;
}

__attribute__((unused)) static long now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The moment ms from now (or before, when negative) on a clock. */
__attribute__((unused)) static struct timespec moment(clockid_t clock, long ms)
{
	struct timespec at;
	clock_gettime(clock, &at);
	long ns = at.tv_nsec + ms % 1000 * 1000000;
	at.tv_sec += ms / 1000 + (ns >= 1000000000) - (ns < 0);
	at.tv_nsec = ns >= 1000000000 ? ns - 1000000000 : ns < 0 ? ns + 1000000000 : ns;
	return at;
}

/* Waits until *word has the value; no longer than ten seconds in which the process has used two of
 * CPU time, as it does here: on a busy machine it may not have its turn for long. */
#define await_value(word, value) await_value_at(__FILE__, __LINE__, #word, word, value)

__attribute__((unused)) static long cpu_ms(void)
{
	struct timespec used;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

__attribute__((unused)) static void await_value_at(const char *file, int line, const char *what,
						   int *word, int value)
{
	long end = now_ms() + 10000, cpu_end = cpu_ms() + 2000;
	while (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
		if (now_ms() > end && cpu_ms() > cpu_end)
			check_failed(file, line, what, 1, __atomic_load_n(word, __ATOMIC_SEQ_CST),
				     value);
		sched_yield();
	}
}

__attribute__((unused)) static void set_value(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

__attribute__((unused)) static int add_value(int *word, int value)
{
	return __atomic_add_fetch(word, value, __ATOMIC_SEQ_CST);
}

__attribute__((unused)) static pthread_t start_thread(void *(*start)(void *), void *arg)
{
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, start, arg), 0);
	return thread;
}

__attribute__((unused)) static void *join_thread(pthread_t thread)
{
	void *result = NULL;
	CHECK_EQ(pthread_join(thread, &result), 0);
	return result;
}

#endif
