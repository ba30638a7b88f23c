/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread whose stack the program brings: a kernel thread everywhere.
 */
#ifndef OWN_STACK_H
#define OWN_STACK_H

#include "check.h"
#include <sys/mman.h>

enum { OWN_STACK_BYTES = 256 << 10 };

/* The stack stays when the thread has ended. */
static pthread_t start_on_own_stack(void *(*start)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	void *stack = mmap(NULL, OWN_STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(stack != MAP_FAILED);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstack(&attr, stack, OWN_STACK_BYTES), 0);
	CHECK_EQ(pthread_create(&thread, &attr, start, arg), 0);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	return thread;
}

#endif
