/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Mutex attributes hold type and protocol, with POSIX's defaults, and refuse unknown values.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_mutexattr_t attr;
	int value;
	CHECK_EQ(pthread_mutexattr_init(&attr), 0);
	CHECK_EQ(pthread_mutexattr_gettype(&attr, &value), 0);
	CHECK_EQ(value, PTHREAD_MUTEX_DEFAULT);
	static const int types[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
				     PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_DEFAULT };
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(pthread_mutexattr_settype(&attr, types[i]), 0);
		CHECK_EQ(pthread_mutexattr_gettype(&attr, &value), 0);
		CHECK_EQ(value, types[i]);
	}
	CHECK_EQ(pthread_mutexattr_settype(&attr, 99), EINVAL);
	CHECK_EQ(pthread_mutexattr_settype(&attr, -1), EINVAL);
	CHECK_EQ(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE), 0);
	CHECK_EQ(pthread_mutexattr_getprotocol(&attr, &value), 0);
	CHECK_EQ(value, PTHREAD_PRIO_NONE);
	CHECK_EQ(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(pthread_mutexattr_getprotocol(&attr, &value), 0);
	CHECK_EQ(value, PTHREAD_PRIO_INHERIT);
	CHECK_EQ(pthread_mutexattr_setprotocol(&attr, 99), EINVAL);
	/* The type is still what it was. */
	CHECK_EQ(pthread_mutexattr_gettype(&attr, &value), 0);
	CHECK_EQ(value, PTHREAD_MUTEX_RECURSIVE);
	CHECK_EQ(pthread_mutexattr_destroy(&attr), 0);
	return 0;
}
