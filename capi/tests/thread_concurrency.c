/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The concurrency level is remembered; negative levels are EINVAL.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	CHECK_EQ(pthread_getconcurrency(), 0);
	CHECK_EQ(pthread_setconcurrency(4), 0);
	CHECK_EQ(pthread_getconcurrency(), 4);
	CHECK_EQ(pthread_setconcurrency(-1), EINVAL);
	CHECK_EQ(pthread_getconcurrency(), 4);
	CHECK_EQ(pthread_setconcurrency(0), 0);
	return 0;
}
