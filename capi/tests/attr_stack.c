/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * heddle's threads run on its own stacks: a stack of the caller's is ENOTSUP.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	if (!ON_HEDDLE)
		SKIP("the C library takes the caller's stack");
	static char memory[1 << 17] __attribute__((aligned(4096)));
	pthread_attr_t attr;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstack(&attr, memory, sizeof memory), ENOTSUP);
	return 0;
}
