/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Named semaphores are refused with ENOSYS in heddle instead of being mixed with its own.
 */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>

int main(void)
{
	if (!ON_HEDDLE)
		SKIP("the C library has named semaphores");
	errno = 0;
	CHECK(sem_open("/heddle-test", O_CREAT, 0600, 0) == SEM_FAILED);
	CHECK_EQ(errno, ENOSYS);
	CHECK_ERRNO(sem_unlink("/heddle-test"), ENOSYS);
	return 0;
}
