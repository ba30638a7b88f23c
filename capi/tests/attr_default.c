/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Fresh attributes hold the defaults of POSIX, and can be destroyed and initialised again.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_attr_t attr;
	struct sched_param param;
	int value;
	size_t size;
	for (int round = 0; round < 2; round++) {
		CHECK_EQ(pthread_attr_init(&attr), 0);
		CHECK_EQ(pthread_attr_getdetachstate(&attr, &value), 0);
		CHECK_EQ(value, PTHREAD_CREATE_JOINABLE);
		CHECK_EQ(pthread_attr_getinheritsched(&attr, &value), 0);
		CHECK_EQ(value, PTHREAD_INHERIT_SCHED);
		CHECK_EQ(pthread_attr_getschedpolicy(&attr, &value), 0);
		CHECK_EQ(value, SCHED_OTHER);
		CHECK_EQ(pthread_attr_getschedparam(&attr, &param), 0);
		CHECK_EQ(param.sched_priority, 0);
		CHECK_EQ(pthread_attr_getscope(&attr, &value), 0);
		CHECK_EQ(value, PTHREAD_SCOPE_SYSTEM);
		CHECK_EQ(pthread_attr_getstacksize(&attr, &size), 0);
		CHECK(size >= (size_t)PTHREAD_STACK_MIN);
		CHECK_EQ(pthread_attr_getguardsize(&attr, &size), 0);
		CHECK_EQ(size, sysconf(_SC_PAGESIZE));
		CHECK_EQ(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED), 0);
		CHECK_EQ(pthread_attr_destroy(&attr), 0);
	}
	return 0;
}
