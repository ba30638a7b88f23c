/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The guard size is kept as set.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_attr_t attr;
	size_t size;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setguardsize(&attr, 0), 0);
	CHECK_EQ(pthread_attr_getguardsize(&attr, &size), 0);
	CHECK_EQ(size, 0);
	CHECK_EQ(pthread_attr_setguardsize(&attr, 12288), 0);
	CHECK_EQ(pthread_attr_getguardsize(&attr, &size), 0);
	CHECK_EQ(size, 12288);
	return 0;
}
