/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A semaphore counts posts and waits; trywait answers EAGAIN at zero.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	sem_t sem;
	int value = -1;
	CHECK_EQ(sem_init(&sem, 0, 2), 0);
	CHECK_EQ(sem_getvalue(&sem, &value), 0);
	CHECK_EQ(value, 2);
	CHECK_EQ(sem_wait(&sem), 0);
	CHECK_EQ(sem_trywait(&sem), 0);
	CHECK_ERRNO(sem_trywait(&sem), EAGAIN);
	CHECK_EQ(sem_getvalue(&sem, &value), 0);
	CHECK_EQ(value, 0);
	CHECK_EQ(sem_post(&sem), 0);
	CHECK_EQ(sem_getvalue(&sem, &value), 0);
	CHECK_EQ(value, 1);
	CHECK_EQ(sem_wait(&sem), 0);
	CHECK_EQ(sem_destroy(&sem), 0);
	return 0;
}
