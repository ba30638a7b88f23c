/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Destroying a held read-write lock is EBUSY in heddle; afterwards it can be initialised again.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_rwlock_t lock;
	CHECK_EQ(pthread_rwlock_init(&lock, NULL), 0);
	CHECK_EQ(pthread_rwlock_rdlock(&lock), 0);
	if (ON_HEDDLE)
		CHECK_EQ(pthread_rwlock_destroy(&lock), EBUSY);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	if (ON_HEDDLE)
		CHECK_EQ(pthread_rwlock_unlock(&lock), EPERM);
	CHECK_EQ(pthread_rwlock_destroy(&lock), 0);
	CHECK_EQ(pthread_rwlock_init(&lock, NULL), 0);
	CHECK_EQ(pthread_rwlock_trywrlock(&lock), 0);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(pthread_rwlock_destroy(&lock), 0);
	return 0;
}
