/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * testcancel acts on a pending request and does nothing without one.
 */
#define _GNU_SOURCE
#include "check.h"

static int cancelled_now;

static void *tests(void *arg)
{
	pthread_testcancel();
	int *passed = arg;
	set_value(passed, 1);
	await_value(&cancelled_now, 1);
	*passed = 2;
	pthread_testcancel();
	*passed = 3;
	return NULL;
}

int main(void)
{
	int passed = 0;
	pthread_t thread = start_thread(tests, &passed);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	await_value(&passed, 1);
	/* await_value yields only: no cancellation point comes before testcancel. */
	CHECK_EQ(pthread_cancel(thread), 0);
	set_value(&cancelled_now, 1);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(passed, 2);
	return 0;
}
