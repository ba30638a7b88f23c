/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The stack size is kept as set, refused below PTHREAD_STACK_MIN, and at least that size in the
 * thread.
 */
#define _GNU_SOURCE
#include "check.h"

#include <limits.h>

static void *looks(void *arg)
{
	pthread_attr_t attr;
	size_t size;
	void *base;
	CHECK_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
	CHECK_EQ(pthread_attr_getstack(&attr, &base, &size), 0);
	CHECK((char *)&attr >= (char *)base && (char *)&attr < (char *)base + size);
	CHECK_EQ(pthread_attr_getstacksize(&attr, &size), 0);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	*(size_t *)arg = size;
	return NULL;
}

int main(void)
{
	static const size_t wanted[] = { 65536, 200000, 1 << 20 };
	pthread_attr_t attr;
	size_t size;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN - 1), EINVAL);
	CHECK_EQ(pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN), 0);
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		pthread_t thread;
		CHECK_EQ(pthread_attr_setstacksize(&attr, wanted[i]), 0);
		CHECK_EQ(pthread_attr_getstacksize(&attr, &size), 0);
		CHECK_EQ(size, wanted[i]);
		CHECK_EQ(pthread_create(&thread, &attr, looks, &size), 0);
		join_thread(thread);
		/* The C library counts its guard as part of the stack. */
		CHECK(size + 4096 >= wanted[i]);
	}
	return 0;
}
