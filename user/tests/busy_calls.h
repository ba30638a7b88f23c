/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls in which a thread may spend all of its time.
 */
#ifndef BUSY_CALLS_H
#define BUSY_CALLS_H

#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

enum { BYTES = 1 << 20 };

static int nothing, ends[2];

static void asks_for_time(void)
{
	struct timespec time;
	CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
}

static void asks_by_number(void)
{
	CHECK_EQ(syscall(SYS_getpid), getpid());
}

static void writes(void)
{
	CHECK_EQ(write(nothing, "x", 1), 1);
}

static void receives_nothing(void)
{
	char byte;
	CHECK_EQ(recv(ends[0], &byte, 1, MSG_DONTWAIT), -1);
}

static void polls(void)
{
	struct pollfd one = { .fd = ends[0], .events = POLLIN };
	/* A signal ends it. */
	CHECK(poll(&one, 1, 0) == 0 || errno == EINTR);
}

static void fills(void)
{
	static __thread char *memory;
	if (!memory)
		CHECK((memory = malloc(BYTES)) != NULL);
	memset(memory, 'x', BYTES);
}

static void prints(void)
{
	char text[64];
	CHECK(snprintf(text, sizeof text, "%d %s %f", nothing, "text", nothing * 1.5) > 0);
}

static void prints_list(const char *format, ...)
{
	char text[64];
	va_list list;
	va_start(list, format);
	CHECK(vsnprintf(text, sizeof text, format, list) > 0);
	va_end(list);
}

static void prints_by_list(void)
{
	prints_list("%d %s %f", nothing, "text", nothing * 1.5);
}

static void reads_number(void)
{
	CHECK(strtod("1234567.891011e-3", NULL) > 1234);
}

static void looks_at_file(void)
{
	struct stat found;
	CHECK_EQ(stat("/", &found), 0);
}

static void locks(void)
{
	static __thread pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
}

static void locks_to_read(void)
{
	static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	CHECK_EQ(pthread_rwlock_rdlock(&lock), 0);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
}

static void posts(void)
{
	static __thread sem_t semaphore;
	CHECK_EQ(sem_post(&semaphore), 0);
	CHECK_EQ(sem_trywait(&semaphore), 0);
}

static void asks_who_it_is(void)
{
	CHECK(syscall(SYS_gettid) > 0);
	CHECK(gettid() > 0);
}

static void makes_none(void)
{
	for (volatile int i = 0; i < 100; i++)
		;
}

static void (*const none)(void) = makes_none;
static void (*const calls[])(void) = { asks_for_time, asks_by_number, writes,	     receives_nothing,
				       polls,	      fills,	      prints,	     prints_by_list,
				       reads_number,  looks_at_file,  locks,	     locks_to_read,
				       posts,	      asks_who_it_is };

/* Before the first one is made. */
static inline void prepare_calls(void)
{
	nothing = open("/dev/null", O_WRONLY);
	CHECK(nothing >= 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static inline double now(void)
{
	struct timespec time;
	CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &time), 0);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

#endif
