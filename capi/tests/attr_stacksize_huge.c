/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A stack that no memory can hold fails cleanly: EINVAL from the attribute or EAGAIN from
 * create.
 */
#define _GNU_SOURCE
#include "check.h"

static void *nothing(void *arg)
{
	return arg;
}

int main(void)
{
	pthread_t thread;
	pthread_attr_t attr;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	int error = pthread_attr_setstacksize(&attr, (size_t)1 << 60);
	if (error == 0)
		CHECK_EQ(pthread_create(&thread, &attr, nothing, NULL), EAGAIN);
	else
		CHECK_EQ(error, EINVAL);
	/* And the process goes on. */
	CHECK_EQ((intptr_t)join_thread(start_thread(nothing, (void *)2)), 2);
	return 0;
}
