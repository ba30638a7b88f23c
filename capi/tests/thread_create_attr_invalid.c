/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Attributes that were destroyed are refused by heddle_create with EINVAL.
 */
#define _GNU_SOURCE
#include "check.h"

static void *nothing(void *arg)
{
	return arg;
}

int main(void)
{
	if (!ON_HEDDLE)
		SKIP("undefined in POSIX; the C library does not look");
	pthread_t thread;
	pthread_attr_t attr;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	CHECK_EQ(pthread_create(&thread, &attr, nothing, NULL), EINVAL);
	return 0;
}
