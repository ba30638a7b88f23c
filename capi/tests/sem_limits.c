/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A value beyond SEM_VALUE_MAX is EINVAL, a post beyond it EOVERFLOW.
 */
#define _GNU_SOURCE
#include "check.h"

#include <limits.h>

int main(void)
{
	sem_t sem;
	int value;
	CHECK_ERRNO(sem_init(&sem, 0, (unsigned)SEM_VALUE_MAX + 1), EINVAL);
	CHECK_EQ(sem_init(&sem, 0, SEM_VALUE_MAX), 0);
	CHECK_ERRNO(sem_post(&sem), EOVERFLOW);
	CHECK_EQ(sem_getvalue(&sem, &value), 0);
	CHECK_EQ(value, SEM_VALUE_MAX);
	CHECK_EQ(sem_wait(&sem), 0);
	CHECK_EQ(sem_post(&sem), 0);
	return 0;
}
