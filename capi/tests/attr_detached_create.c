/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads created detached run, and need no join.
 */
#define _GNU_SOURCE
#include "check.h"

static int ended;

static void *count(void *arg)
{
	pthread_attr_t attr;
	int state;
	CHECK_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
	CHECK_EQ(pthread_attr_getdetachstate(&attr, &state), 0);
	CHECK_EQ(state, PTHREAD_CREATE_DETACHED);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	add_value(&ended, 1);
	return arg;
}

int main(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED), 0);
	for (int i = 0; i < 50; i++)
		CHECK_EQ(pthread_create(&thread, &attr, count, NULL), 0);
	await_value(&ended, 50);
	return 0;
}
