/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Cancellation is deferred by default; unknown types are EINVAL, and heddle has no asynchronous
 * one: ENOTSUP.
 */
#define _GNU_SOURCE
#include "check.h"

static void *types(void *arg)
{
	int old = -1;
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_DEFERRED);
	CHECK_EQ(pthread_setcanceltype(12345, &old), EINVAL);
	int expected = ON_HEDDLE ? ENOTSUP : 0;
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), expected);
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old), 0);
	CHECK_EQ(old, ON_HEDDLE ? PTHREAD_CANCEL_DEFERRED : PTHREAD_CANCEL_ASYNCHRONOUS);
	return arg;
}

int main(void)
{
	join_thread(start_thread(types, NULL));
	return 0;
}
