/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A mutex is not robust by default; heddle has no robust ones: ENOTSUP, and consistent is
 * EINVAL.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int robust = -1;
	CHECK_EQ(pthread_mutexattr_init(&attr), 0);
	CHECK_EQ(pthread_mutexattr_getrobust(&attr, &robust), 0);
	CHECK_EQ(robust, PTHREAD_MUTEX_STALLED);
	CHECK_EQ(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_STALLED), 0);
	CHECK_EQ(pthread_mutexattr_setrobust(&attr, 99), EINVAL);
	if (ON_HEDDLE)
		CHECK_EQ(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST), ENOTSUP);
	CHECK_EQ(pthread_mutex_consistent(&mutex), EINVAL);
	return 0;
}
