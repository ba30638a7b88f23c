/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * While cancellation is disabled a request stays pending; the state calls give the old state and
 * refuse others.
 */
#define _GNU_SOURCE
#include "check.h"

static int disabled, enable;

static void *holds_off(void *arg)
{
	int old = -1;
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_ENABLE);
	CHECK_EQ(pthread_setcancelstate(12345, &old), EINVAL);
	set_value(&disabled, 1);
	await_value(&enable, 1);
	pthread_testcancel();
	sleep_ms(1);
	*(int *)arg = 1;
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_DISABLE);
	pthread_testcancel();
	*(int *)arg = 2;
	return NULL;
}

int main(void)
{
	int reached = 0;
	pthread_t thread = start_thread(holds_off, &reached);
	await_value(&disabled, 1);
	CHECK_EQ(pthread_cancel(thread), 0);
	set_value(&enable, 1);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(reached, 1);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	return 0;
}
