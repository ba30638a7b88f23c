/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The detach state takes its two values and refuses others.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_attr_t attr;
	int state;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED), 0);
	CHECK_EQ(pthread_attr_getdetachstate(&attr, &state), 0);
	CHECK_EQ(state, PTHREAD_CREATE_DETACHED);
	CHECK_EQ(pthread_attr_setdetachstate(&attr, 77), EINVAL);
	CHECK_EQ(pthread_attr_getdetachstate(&attr, &state), 0);
	CHECK_EQ(state, PTHREAD_CREATE_DETACHED);
	CHECK_EQ(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_JOINABLE), 0);
	CHECK_EQ(pthread_attr_getdetachstate(&attr, &state), 0);
	CHECK_EQ(state, PTHREAD_CREATE_JOINABLE);
	return 0;
}
