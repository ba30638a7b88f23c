/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A spin lock that is held answers EBUSY.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_spinlock_t lock;
	CHECK_EQ(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE), 0);
	CHECK_EQ(pthread_spin_trylock(&lock), 0);
	CHECK_EQ(pthread_spin_trylock(&lock), EBUSY);
	CHECK_EQ(pthread_spin_unlock(&lock), 0);
	CHECK_EQ(pthread_spin_lock(&lock), 0);
	CHECK_EQ(pthread_spin_unlock(&lock), 0);
	return 0;
}
