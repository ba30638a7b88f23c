/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Who holds the lock for writing gets EDEADLK for locking it again.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	struct timespec at = moment(CLOCK_REALTIME, 1000);
	CHECK_EQ(pthread_rwlock_wrlock(&lock), 0);
	CHECK_EQ(pthread_rwlock_rdlock(&lock), EDEADLK);
	CHECK_EQ(pthread_rwlock_wrlock(&lock), EDEADLK);
	CHECK_EQ(pthread_rwlock_timedrdlock(&lock, &at), EDEADLK);
	CHECK_EQ(pthread_rwlock_timedwrlock(&lock, &at), EDEADLK);
	CHECK_EQ(pthread_rwlock_tryrdlock(&lock), EBUSY);
	CHECK_EQ(pthread_rwlock_trywrlock(&lock), EBUSY);
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
	return 0;
}
