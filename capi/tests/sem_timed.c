/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Timed waits end at their moment with ETIMEDOUT; EINVAL for a malformed one, if it is needed.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	sem_t sem;
	CHECK_EQ(sem_init(&sem, 0, 1), 0);
	struct timespec at = moment(CLOCK_REALTIME, -1000);
	CHECK_EQ(sem_timedwait(&sem, &at), 0);
	CHECK_ERRNO(sem_timedwait(&sem, &at), ETIMEDOUT);
	at = moment(CLOCK_REALTIME, 20);
	long start = now_ms();
	CHECK_ERRNO(sem_timedwait(&sem, &at), ETIMEDOUT);
	CHECK(now_ms() - start >= 18);
	at.tv_nsec = 1000000000;
	CHECK_ERRNO(sem_timedwait(&sem, &at), EINVAL);
	start = now_ms();
	at = moment(CLOCK_MONOTONIC, 20);
	CHECK_ERRNO(sem_clockwait(&sem, CLOCK_MONOTONIC, &at), ETIMEDOUT);
	long took = now_ms() - start;
	CHECK(took >= 18 && took < 40000);
	CHECK_ERRNO(sem_clockwait(&sem, CLOCK_PROCESS_CPUTIME_ID, &at), EINVAL);
	/* Whoever timed out is gone from the queue: the post is not lost. */
	CHECK_EQ(sem_post(&sem), 0);
	CHECK_EQ(sem_trywait(&sem), 0);
	return 0;
}
