/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * SCHED_HEDDLE with a priority makes a thread time-critical, in attributes and on the run.
 */
#define _GNU_SOURCE
#include "check.h"

#ifdef HEDDLE_PTHREAD_H
static void check_class(pthread_t thread, int thread_class, int priority)
{
	struct heddle_attributes now = { .size_bytes = sizeof now };
	CHECK_EQ(heddle_getattributes_np(thread, &now), 0);
	CHECK_EQ(now.thread_class, thread_class);
	CHECK_EQ(now.priority, priority);
}

static void *looks(void *arg)
{
	check_class(pthread_self(), HEDDLE_TIME_CRITICAL, 42);
	struct sched_param param = { .sched_priority = 0 };
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_HEDDLE, &param), 0);
	check_class(pthread_self(), HEDDLE_LAZY, 0);
	param.sched_priority = 100;
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_HEDDLE, &param), EINVAL);
	param.sched_priority = -1;
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_HEDDLE, &param), EINVAL);
	return arg;
}
#endif

int main(void)
{
#ifndef HEDDLE_PTHREAD_H
	SKIP("SCHED_HEDDLE is heddle's");
#else
	pthread_attr_t attr;
	pthread_t thread;
	struct sched_param param = { .sched_priority = 42 };
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED), 0);
	CHECK_EQ(pthread_attr_setschedpolicy(&attr, SCHED_HEDDLE), 0);
	CHECK_EQ(pthread_attr_setschedparam(&attr, &param), 0);
	CHECK_EQ(pthread_create(&thread, &attr, looks, NULL), 0);
	join_thread(thread);
	return 0;
#endif
}
