/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * heddle has no priority ceilings: ENOTSUP from the attributes, EINVAL from a mutex.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	if (!ON_HEDDLE)
		SKIP("the C library has ceilings");
	pthread_mutexattr_t attr;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int ceiling;
	CHECK_EQ(pthread_mutexattr_init(&attr), 0);
	CHECK_EQ(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_PROTECT), ENOTSUP);
	CHECK_EQ(pthread_mutexattr_setprioceiling(&attr, 10), ENOTSUP);
	CHECK_EQ(pthread_mutexattr_getprioceiling(&attr, &ceiling), ENOTSUP);
	CHECK_EQ(pthread_mutex_getprioceiling(&mutex, &ceiling), EINVAL);
	CHECK_EQ(pthread_mutex_setprioceiling(&mutex, 10, &ceiling), EINVAL);
	return 0;
}
