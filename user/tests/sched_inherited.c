/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What policy the process was started with (chrt) its threads have, and those that they make, until
 * they are given another one. Each of the policies in a child of its own; FIFO and RR only where
 * that is permitted.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int policy, priority;

static void has(int wanted, int wanted_priority)
{
	struct sched_param told = { -1 }, by_call = { -1 };
	int told_policy;

	CHECK_EQ(pthread_getschedparam(pthread_self(), &told_policy, &told), 0);
	CHECK_EQ(told_policy, wanted);
	CHECK_EQ(told.sched_priority, wanted_priority);
	CHECK_EQ(sched_getscheduler(0), wanted);
	CHECK_EQ(syscall(SYS_sched_getscheduler, gettid()), wanted);
	CHECK_EQ(sched_getparam(0, &by_call), 0);
	CHECK_EQ(by_call.sched_priority, wanted_priority);
}

static void *inherits(void *arg)
{
	const struct sched_param none = { 0 };

	has(policy, priority);
	if (arg)
		join_thread(start_thread(inherits, NULL));
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_OTHER, &none), 0);
	has(SCHED_OTHER, 0);
	return NULL;
}

static void *is_other(void *arg)
{
	has(SCHED_OTHER, 0);
	return arg;
}

static void starts_with(int wanted, int wanted_priority)
{
	const struct sched_param param = { wanted_priority };
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		pthread_attr_t attr;

		policy = wanted;
		priority = wanted_priority;
		if (sched_setscheduler(0, policy, &param) != 0) {
			CHECK_EQ(errno, EPERM);
			_exit(0);
		}
		join_thread(start_thread(inherits, &policy));
		CHECK_EQ(pthread_attr_init(&attr), 0);
		CHECK_EQ(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED), 0);
		pthread_t other;
		CHECK_EQ(pthread_create(&other, &attr, is_other, NULL), 0);
		join_thread(other);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

int main(void)
{
	starts_with(SCHED_OTHER, 0);
	starts_with(SCHED_BATCH, 0);
	starts_with(SCHED_FIFO, 10);
	starts_with(SCHED_RR, 3);
	return 0;
}
