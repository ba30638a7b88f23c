/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Policy and priority of a running thread can be read and set; unknown ones are EINVAL.
 */
#define _GNU_SOURCE
#include "check.h"

static sem_t gate;

static void *wait_at_gate(void *arg)
{
	sem_wait(&gate);
	return arg;
}

int main(void)
{
	struct sched_param param = { .sched_priority = 55 };
	int policy = -1;
	sem_init(&gate, 0, 0);
	pthread_t thread = start_thread(wait_at_gate, NULL);
	CHECK_EQ(pthread_getschedparam(thread, &policy, &param), 0);
	CHECK_EQ(policy, SCHED_OTHER);
	CHECK_EQ(param.sched_priority, 0);
	CHECK_EQ(pthread_setschedparam(thread, SCHED_OTHER, &param), 0);
	CHECK_EQ(pthread_setschedparam(thread, 12345, &param), EINVAL);
	param.sched_priority = 12345;
	CHECK_EQ(pthread_setschedparam(thread, SCHED_RR, &param), EINVAL);
	param.sched_priority = 0;
	CHECK_EQ(pthread_setschedparam(thread, SCHED_FIFO, &param), EINVAL);
	param.sched_priority = 20;
	int error = pthread_setschedparam(thread, SCHED_RR, &param);
	if (!ON_HEDDLE && error == EPERM)
		SKIP("no right to use SCHED_RR here");
	CHECK_EQ(error, 0);
	CHECK_EQ(pthread_getschedparam(thread, &policy, &param), 0);
	CHECK_EQ(policy, SCHED_RR);
	CHECK_EQ(param.sched_priority, 20);
	CHECK_EQ(pthread_setschedprio(thread, 30), 0);
	CHECK_EQ(pthread_getschedparam(thread, &policy, &param), 0);
	CHECK_EQ(param.sched_priority, 30);
	CHECK_EQ(pthread_setschedprio(thread, 12345), EINVAL);
	sem_post(&gate);
	join_thread(thread);
	return 0;
}
