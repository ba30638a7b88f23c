/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A crash handler's backtrace() in a thread has every frame down to the start function and ends
 * there: for abort(), for a fault, and beside threads that take the processor from it.
 */
#include "check.h"
#include <execinfo.h>
#include <setjmp.h>
#include <signal.h>

#define DEEP 20
#define FRAMES 200
/* Frames below the start function: the C library's, or heddle's. */
#define BELOW_MAX 8

static __thread sigjmp_buf back;
static __thread void *frames[FRAMES];
static __thread int found;
static volatile int stop;

static void crashed(int number)
{
	found = backtrace(frames, FRAMES);
	siglongjmp(back, number);
}

__attribute__((noinline)) static int crash(int depth, int number)
{
	int result = 0;
	if (depth)
		result = crash(depth - 1, number) + 1;
	else if (number == SIGABRT)
		abort();
	else
		*(volatile int *)0 = 1;
	__asm__ volatile("" ::: "memory");
	return result;
}

static void *start(void *arg);

/* How many return addresses lie in the function that begins there. */
static int within(void *function, size_t bytes, int *last)
{
	int count = 0;
	for (int i = 0; i < found; i++) {
		size_t offset = (size_t)((char *)frames[i] - (char *)function);
		if (offset < bytes) {
			count++;
			*last = i;
		}
	}
	return count;
}

static void *start(void *arg)
{
	int last = -1;
	int number = sigsetjmp(back, 1);
	if (number == 0)
		crash(DEEP, arg ? SIGSEGV : SIGABRT);
	CHECK(found > DEEP);
	CHECK(found < DEEP + FRAMES / 2);
	/* One of them, or two where the compiler has unrolled the recursion. */
	CHECK(within((void *)crash, 400, &last) >= DEEP / 4);
	CHECK(last > 0);
	CHECK(found - 1 - last <= 1 + BELOW_MAX);
	return NULL;
}

static void *computes(void *arg)
{
	while (!stop)
		;
	return arg;
}

int main(void)
{
	struct sigaction action = {.sa_handler = crashed};
	pthread_t busy[3], thread[40];

	CHECK_EQ(sigaction(SIGABRT, &action, NULL), 0);
	CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_create(&busy[i], NULL, computes, NULL), 0);
	for (int i = 0; i < 40; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, start, i % 2 ? thread : NULL), 0);
	for (int i = 0; i < 40; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	stop = 1;
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_join(busy[i], NULL), 0);
	return 0;
}
