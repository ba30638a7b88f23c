/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Attributes with a priority that their policy does not have make no thread, unless they say that
 * both are inherited.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>

static void *nothing(void *arg)
{
	return arg;
}

static void *makes(void *arg)
{
	struct sched_param param = { .sched_priority = 0 };
	pthread_attr_t attr;
	pthread_t thread;

	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setschedpolicy(&attr, SCHED_OTHER), 0);
	CHECK_EQ(pthread_attr_setschedparam(&attr, &param), 0);
	CHECK_EQ(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED), 0);
	CHECK_EQ(pthread_create(&thread, &attr, nothing, NULL), 0);
	join_thread(thread);
	/* By way of a policy that has it, for the C library looks at what it is given. */
	param.sched_priority = 1;
	CHECK_EQ(pthread_attr_setschedpolicy(&attr, SCHED_FIFO), 0);
	CHECK_EQ(pthread_attr_setschedparam(&attr, &param), 0);
	CHECK_EQ(pthread_attr_setschedpolicy(&attr, SCHED_OTHER), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_create(&thread, &attr, nothing, NULL), EINVAL);
	CHECK_EQ(pthread_attr_setinheritsched(&attr, PTHREAD_INHERIT_SCHED), 0);
	CHECK_EQ(pthread_create(&thread, &attr, nothing, NULL), 0);
	join_thread(thread);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	return arg;
}

int main(void)
{
	makes(NULL);
	join_thread(start_thread(makes, NULL));
	return 0;
}
