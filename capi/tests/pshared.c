/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Objects are private to the process by default; sharing them is ENOTSUP in heddle, and nonsense
 * EINVAL.
 */
#define _GNU_SOURCE
#include "check.h"

#define TEST_ATTR(kind)                                                                           \
	do {                                                                                      \
		pthread_##kind##attr_t attr;                                                      \
		int shared = -1;                                                                  \
		CHECK_EQ(pthread_##kind##attr_init(&attr), 0);                                    \
		CHECK_EQ(pthread_##kind##attr_getpshared(&attr, &shared), 0);                     \
		CHECK_EQ(shared, PTHREAD_PROCESS_PRIVATE);                                        \
		CHECK_EQ(pthread_##kind##attr_setpshared(&attr, 99), EINVAL);                     \
		CHECK_EQ(pthread_##kind##attr_setpshared(&attr, PTHREAD_PROCESS_PRIVATE), 0);     \
		CHECK_EQ(pthread_##kind##attr_setpshared(&attr, PTHREAD_PROCESS_SHARED), refused); \
		CHECK_EQ(pthread_##kind##attr_destroy(&attr), 0);                                 \
	} while (0)

int main(void)
{
	int refused = ON_HEDDLE ? ENOTSUP : 0;
	sem_t sem;
	pthread_spinlock_t spin;
	TEST_ATTR(mutex);
	TEST_ATTR(cond);
	TEST_ATTR(rwlock);
	TEST_ATTR(barrier);
	CHECK_EQ(pthread_spin_init(&spin, PTHREAD_PROCESS_SHARED), refused);
	if (ON_HEDDLE)
		CHECK_ERRNO(sem_init(&sem, 1, 0), ENOTSUP);
	return 0;
}
