/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A barrier for nobody is EINVAL; one for a single thread never waits.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_barrier_t barrier;
	CHECK_EQ(pthread_barrier_init(&barrier, NULL, 0), EINVAL);
	CHECK_EQ(pthread_barrier_init(&barrier, NULL, 1), 0);
	CHECK_EQ(pthread_barrier_wait(&barrier), PTHREAD_BARRIER_SERIAL_THREAD);
	CHECK_EQ(pthread_barrier_wait(&barrier), PTHREAD_BARRIER_SERIAL_THREAD);
	CHECK_EQ(pthread_barrier_destroy(&barrier), 0);
	return 0;
}
