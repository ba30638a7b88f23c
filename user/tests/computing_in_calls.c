/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that do nothing but make calls do not keep a thread from the CPU that wakes now and then:
 * whatever they are in when they are to make room, they make it.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BUSY_MAX = 64, WAKES = 100, PAUSE_US = 1000, TRIES = 5, PATIENCE_S = 30, BYTES = 1 << 20 };
/* Beside threads that make no calls the wakes take so many seconds; here no more than three times
 * as long, and this. Where each wake waits for luck, or for some refusals, it takes a second or
 * more, however often it is tried. */
#define BESIDES 0.2

static int end, nothing, ends[2];

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
	CHECK_EQ(poll(&one, 1, 0), 0);
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

static void makes_none(void)
{
	for (volatile int i = 0; i < 100; i++)
		;
}

static void (*const none)(void) = makes_none;
static void (*const calls[])(void) = { asks_for_time, asks_by_number, writes, receives_nothing,
				       polls,	      fills,	      prints, prints_by_list,
				       reads_number,  looks_at_file,  locks,  locks_to_read,
				       posts };

static void *computes(void *call)
{
	void (*const make)(void) = *(void (*const *)(void))call;
	while (!__atomic_load_n(&end, __ATOMIC_RELAXED))
		make();
	return NULL;
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double until, taken;
static int woken;

/* Stops when it is over. */
static void *wakes(void *unused)
{
	const double begin = now();
	for (woken = 0; woken < WAKES && now() < until; woken++)
		CHECK_EQ(usleep(PAUSE_US), 0);
	taken = now() - begin;
	__atomic_store_n(&end, 1, __ATOMIC_RELAXED);
	return unused;
}

/* Whether all wakes come within so many seconds beside threads that make a call. */
static int come_beside(void (*const *call)(void), double seconds)
{
	pthread_t busy[BUSY_MAX], one;
	/* More than there are workers. */
	const long two_each = 2 * sysconf(_SC_NPROCESSORS_ONLN) + 2;
	const int count = two_each < BUSY_MAX ? (int)two_each : BUSY_MAX;
	until = now() + seconds;
	__atomic_store_n(&end, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < count; i++)
		CHECK_EQ(pthread_create(&busy[i], NULL, computes, (void *)(uintptr_t)call), 0);
	CHECK_EQ(pthread_create(&one, NULL, wakes, NULL), 0);
	CHECK_EQ(pthread_join(one, NULL), 0);
	for (int i = 0; i < count; i++)
		CHECK_EQ(pthread_join(busy[i], NULL), 0);
	return woken == WAKES;
}

int main(void)
{
	nothing = open("/dev/null", O_WRONLY);
	CHECK(nothing >= 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		int tries = 0;
		do {
			CHECK(tries++ < TRIES);
			CHECK(come_beside(&none, PATIENCE_S));
		} while (!come_beside(&calls[i], 3 * taken + BESIDES));
	}
	return 0;
}
