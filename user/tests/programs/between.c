/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A library between libheddle-user and the C library, as libheddle-preload is one: the question
 * whether a call on a descriptor may wait goes through it, and stays in here for many slices while
 * `between_slow` is set. `between_left` counts how often another thread ran meanwhile on the only
 * worker: the caller was left in the middle of a step of libheddle-user that nothing may come
 * between.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>

/* What the other thread counts, and what is found. */
extern volatile long between_turns, between_calls, between_left;
extern volatile int between_slow;
volatile long between_turns, between_calls, between_left;
volatile int between_slow;

/* Long enough that a thread that may be left is left. */
#define MS 40

static long raw(long number, const long *a)
{
	long result;
	register long r10 __asm__("r10") = a[3];
	register long r8 __asm__("r8") = a[4];
	register long r9 __asm__("r9") = a[5];

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static long ms(void)
{
	struct timespec now = { 0, 0 };
	long a[6] = { CLOCK_MONOTONIC, (long)&now };

	raw(SYS_clock_gettime, a);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

extern int *__errno_location(void);

int fcntl(int fd, int operation, ...)
{
	va_list words;
	long a[6] = { fd, operation }, result;

	va_start(words, operation);
	a[2] = va_arg(words, long);
	va_end(words);
	if (between_slow && operation == F_GETFL) {
		long before = between_turns, end = ms() + MS;

		between_calls++;
		while (ms() < end)
			;
		between_left += between_turns != before;
	}
	result = raw(SYS_fcntl, a);
	if (result < 0 && result > -4096) {
		*__errno_location() = (int)-result;
		return -1;
	}
	return (int)result;
}
