/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A new thread inherits its creator's scheduling unless its attributes say EXPLICIT.
 */
#define _GNU_SOURCE
#include "check.h"

static void *looks(void *arg)
{
	struct sched_param param;
	int policy;
	(void)arg;
	CHECK_EQ(pthread_getschedparam(pthread_self(), &policy, &param), 0);
	return (void *)(intptr_t)(policy * 1000 + param.sched_priority);
}

static void *creates(void *arg)
{
	struct sched_param param = { .sched_priority = 7 };
	pthread_attr_t attr;
	pthread_t thread;
	int error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
	if (!ON_HEDDLE && error == EPERM)
		SKIP("no right to use SCHED_FIFO here");
	CHECK_EQ(error, 0);
	CHECK_EQ((intptr_t)join_thread(start_thread(looks, NULL)), SCHED_FIFO * 1000 + 7);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED), 0);
	param.sched_priority = 0;
	CHECK_EQ(pthread_attr_setschedpolicy(&attr, SCHED_OTHER), 0);
	CHECK_EQ(pthread_attr_setschedparam(&attr, &param), 0);
	CHECK_EQ(pthread_create(&thread, &attr, looks, NULL), 0);
	CHECK_EQ((intptr_t)join_thread(thread), SCHED_OTHER * 1000);
	param.sched_priority = 9;
	CHECK_EQ(pthread_attr_setschedpolicy(&attr, SCHED_RR), 0);
	CHECK_EQ(pthread_attr_setschedparam(&attr, &param), 0);
	/* A thread that asks for such a policy is a kernel thread, whoever makes it. */
	error = pthread_create(&thread, &attr, looks, NULL);
	if (!ON_HEDDLE && error == EPERM)
		SKIP("no right to use SCHED_RR here");
	CHECK_EQ(error, 0);
	CHECK_EQ((intptr_t)join_thread(thread), SCHED_RR * 1000 + 9);
	return arg;
}

int main(void)
{
	join_thread(start_thread(creates, NULL));
	return 0;
}
