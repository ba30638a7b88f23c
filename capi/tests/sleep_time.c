/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The sleep family sleeps at least as long as asked and returns what POSIX says.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	long start = now_ms();
	CHECK_EQ(usleep(20000), 0);
	CHECK(now_ms() - start >= 19);
	start = now_ms();
	struct timespec duration = { 0, 20000000 }, left = { 7, 7 };
	CHECK_EQ(nanosleep(&duration, &left), 0);
	CHECK(now_ms() - start >= 19);
	start = now_ms();
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL), 0);
	CHECK(now_ms() - start >= 19);
	start = now_ms();
	struct timespec at = moment(CLOCK_REALTIME, 20);
	CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL), 0);
	CHECK(now_ms() - start >= 18);
	start = now_ms();
	CHECK_EQ(sleep(1), 0);
	CHECK(now_ms() - start >= 999);
	CHECK_EQ(sleep(0), 0);
	return 0;
}
