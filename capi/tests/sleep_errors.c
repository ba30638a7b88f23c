/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Malformed times and clocks that cannot sleep are EINVAL, by errno or as a result as each call
 * has it.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	struct timespec bad = { 0, 1000000000 }, negative = { -1, 0 };
	struct timespec past = moment(CLOCK_MONOTONIC, -1000), none = { 0, 0 };
	CHECK_ERRNO(nanosleep(&bad, NULL), EINVAL);
	CHECK_ERRNO(nanosleep(&negative, NULL), EINVAL);
	bad.tv_nsec = -1;
	CHECK_ERRNO(nanosleep(&bad, NULL), EINVAL);
	errno = 0;
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad, NULL), EINVAL);
	CHECK_EQ(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &none, NULL), EINVAL);
	CHECK_EQ(errno, 0);
	/* A moment that is over needs no sleep. */
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, NULL), 0);
	CHECK_EQ(nanosleep(&none, NULL), 0);
	return 0;
}
