/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Inheritance, policy, priority and scope are kept as set and refuse unknown values.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_attr_t attr;
	struct sched_param param = { .sched_priority = 10 };
	int value;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED), 0);
	CHECK_EQ(pthread_attr_getinheritsched(&attr, &value), 0);
	CHECK_EQ(value, PTHREAD_EXPLICIT_SCHED);
	CHECK_EQ(pthread_attr_setinheritsched(&attr, 99), EINVAL);
	CHECK_EQ(pthread_attr_setschedpolicy(&attr, SCHED_FIFO), 0);
	CHECK_EQ(pthread_attr_getschedpolicy(&attr, &value), 0);
	CHECK_EQ(value, SCHED_FIFO);
	CHECK_EQ(pthread_attr_setschedpolicy(&attr, 12345), EINVAL);
	CHECK_EQ(pthread_attr_setschedparam(&attr, &param), 0);
	param.sched_priority = 0;
	CHECK_EQ(pthread_attr_getschedparam(&attr, &param), 0);
	CHECK_EQ(param.sched_priority, 10);
	param.sched_priority = 12345;
	CHECK_EQ(pthread_attr_setschedparam(&attr, &param), EINVAL);
	CHECK_EQ(pthread_attr_setscope(&attr, PTHREAD_SCOPE_SYSTEM), 0);
	CHECK_EQ(pthread_attr_setscope(&attr, 99), EINVAL);
	int error = pthread_attr_setscope(&attr, PTHREAD_SCOPE_PROCESS);
	CHECK(error == 0 || error == ENOTSUP);
	CHECK_EQ(pthread_attr_getscope(&attr, &value), 0);
	CHECK_EQ(value, error ? PTHREAD_SCOPE_SYSTEM : PTHREAD_SCOPE_PROCESS);
	return 0;
}
