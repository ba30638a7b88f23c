/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread's floating-point control is its own: rounding, flushing to zero, which exceptions trap,
 * and which it has raised; over yields, waits, sleeps and preemption. A new thread has its maker's.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fenv.h>
#include <sched.h>

enum { THREADS = 8, ROUNDS = 200, SLEEP_EVERY = 20, SPINS = 20000 };

static const int modes[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Small numbers are zero where they are flushed. */
#if defined __x86_64__
#include <xmmintrin.h>
enum { FLUSH = 0x8000 };
static void flush(void)
{
	_mm_setcsr(_mm_getcsr() | FLUSH);
}
static int flushes(void)
{
	return (_mm_getcsr() & FLUSH) != 0;
}
#elif defined __aarch64__
static void flush(void)
{
	unsigned long control;
	__asm__ volatile("mrs %0, fpcr" : "=r"(control));
	__asm__ volatile("msr fpcr, %0" : : "r"(control | 1ul << 24));
}
static int flushes(void)
{
	unsigned long control;
	__asm__ volatile("mrs %0, fpcr" : "=r"(control));
	return (control >> 24 & 1) != 0;
}
#endif

static void *has_its_own(void *arg)
{
	long number = (long)arg;
	int mode = modes[number % 4], does_flush = number >= 4;
	CHECK_EQ(fegetround(), FE_TONEAREST);
	CHECK_EQ(flushes(), 0);
	CHECK_EQ(fesetround(mode), 0);
	if (does_flush)
		flush();
	feclearexcept(FE_ALL_EXCEPT);
	if (number % 2 == 0) {
		volatile double zero = 0, quotient = 1 / zero;
		(void)quotient;
	}
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&lock);
		sched_yield();
		pthread_mutex_unlock(&lock);
		if (i % SLEEP_EVERY == 0)
			usleep(1000);
		for (volatile int spin = 0; spin < SPINS; spin++)
			;
		CHECK_EQ(fegetround(), mode);
		CHECK_EQ(flushes(), does_flush);
#if defined __SSE2_MATH__ || defined __aarch64__
		CHECK_EQ(fetestexcept(FE_DIVBYZERO) != 0, number % 2 == 0);
#endif
	}
	return NULL;
}

static void *has_its_makers(void *arg)
{
	CHECK_EQ(fegetround(), (int)(long)arg);
	return NULL;
}

static void *makes_one(void *arg)
{
	pthread_t thread;
	CHECK_EQ(fesetround(FE_DOWNWARD), 0);
	CHECK_EQ(pthread_create(&thread, NULL, has_its_makers, (void *)(long)FE_DOWNWARD), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, has_its_own, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(fegetround(), FE_TONEAREST);
	CHECK_EQ(fesetround(FE_UPWARD), 0);
	CHECK_EQ(pthread_create(&threads[0], NULL, has_its_makers, (void *)(long)FE_UPWARD), 0);
	CHECK_EQ(pthread_create(&threads[1], NULL, makes_one, NULL), 0);
	CHECK_EQ(pthread_join(threads[0], NULL), 0);
	CHECK_EQ(pthread_join(threads[1], NULL), 0);
	CHECK_EQ(fegetround(), FE_UPWARD);
	return 0;
}
