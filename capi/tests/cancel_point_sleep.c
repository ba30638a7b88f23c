/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The sleep family are cancellation points.
 */
#define _GNU_SOURCE
#include "check.h"

static void sleep_seconds(void)
{
	sleep(100);
}

static void sleep_microseconds(void)
{
	for (;;)
		usleep(900000);
}

static void sleep_nano(void)
{
	struct timespec long_time = { 100, 0 };
	nanosleep(&long_time, NULL);
}

static void sleep_clock(void)
{
	struct timespec at = moment(CLOCK_MONOTONIC, 100000);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void (*const calls[])(void) = { sleep_seconds, sleep_microseconds, sleep_nano, sleep_clock };

static void *blocks(void *arg)
{
	calls[(intptr_t)arg]();
	return NULL;
}

int main(void)
{
	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		pthread_t thread = start_thread(blocks, (void *)i);
		/* Odd rounds find the thread asleep, even ones cancel it on the way. */
		if (i % 2)
			sleep_ms(5);
		CHECK_EQ(pthread_cancel(thread), 0);
		CHECK(join_thread(thread) == PTHREAD_CANCELED);
	}
	return 0;
}
