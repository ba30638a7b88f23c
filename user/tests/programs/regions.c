/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program for the tests of the CPU Mediator: kernel threads that compute (the main one, and
 * "burner" on a stack of the program's own), a user-level thread that does, and a user-level
 * thread "urgent" that a policy makes time-critical.
 *
 *     regions ROUNDS    urgent works for some 0.2 ms every 5 ms, ROUNDS times; then it says how
 *                       late it was at worst and in the middle, in us, and ends
 *
 * The others go on until a signal ends the program.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PERIOD_NS 5000000
#define WORK_NS 200000
#define ROUNDS_MAX 100000

static int rounds;
static long late_us[ROUNDS_MAX];
static atomic_int are_ready;

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *burner(void *argument)
{
	pthread_setname_np(pthread_self(), "burner");
	are_ready++;
	for (;;)
		;
	return argument;
}

static void *computer(void *argument)
{
	are_ready++;
	for (;;)
		;
	return argument;
}

static int compare(const void *one, const void *other)
{
	const long *a = one, *b = other;

	return (*a > *b) - (*a < *b);
}

static void *urgent(void *argument)
{
	long next = now_ns();

	are_ready++;
	for (int i = 0; i < rounds; i++) {
		struct timespec at;
		long begun;

		next += PERIOD_NS;
		at.tv_sec = next / 1000000000;
		at.tv_nsec = next % 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		begun = now_ns();
		late_us[i] = (begun - next) / 1000;
		while (now_ns() - begun < WORK_NS)
			;
		if (now_ns() > next + PERIOD_NS)
			next = now_ns();
	}
	qsort(late_us, (size_t)rounds, sizeof(late_us[0]), compare);
	printf("%ld %ld\n", late_us[rounds - 1], late_us[rounds / 2]);
	fflush(stdout);
	return argument;
}

int main(int count, char **words)
{
	static char stack[256 << 10] __attribute__((aligned(4096)));
	pthread_attr_t attributes;
	pthread_t thread;

	rounds = count > 1 ? atoi(words[1]) : 0;
	if (rounds < 1 || rounds > ROUNDS_MAX)
		return 2;
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack, sizeof(stack));
	pthread_create(&thread, &attributes, burner, NULL);
	pthread_create(&thread, NULL, computer, NULL);
	pthread_create(&thread, NULL, urgent, NULL);
	while (are_ready < 3)
		;
	puts("ready");
	fflush(stdout);
	for (;;)
		;
}
