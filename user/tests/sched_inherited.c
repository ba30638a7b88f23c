/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What policy the process was started with (chrt) its threads have, and those that they make, until
 * they are given another one; so have those of a process that takes it before its first thread.
 * Each of the policies in a child of its own, and in a program that such a child becomes; FIFO and
 * RR only where that is permitted.
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

static void makes_threads(int wanted, int wanted_priority)
{
	pthread_attr_t attr;
	pthread_t other;

	policy = wanted;
	priority = wanted_priority;
	join_thread(start_thread(inherits, &policy));
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED), 0);
	CHECK_EQ(pthread_create(&other, &attr, is_other, NULL), 0);
	join_thread(other);
}

static void starts_with(int wanted, int wanted_priority)
{
	const struct sched_param param = { wanted_priority };
	char words[2][16], path[4096] = "", *arguments[] = { "sched_inherited", words[0], words[1], NULL };
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		if (sched_setscheduler(0, wanted, &param) != 0) {
			CHECK_EQ(errno, EPERM);
			_exit(0);
		}
		makes_threads(wanted, wanted_priority);
		/* Where a loader was called by its name, it is that one. */
		if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0 ||
		    !strstr(path, "sched_inherited"))
			_exit(0);
		snprintf(words[0], sizeof(words[0]), "%d", wanted);
		snprintf(words[1], sizeof(words[1]), "%d", wanted_priority);
		execv("/proc/self/exe", arguments);
		CHECK(!"becomes itself");
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

int main(int count, char **words)
{
	if (count > 2) {
		makes_threads(atoi(words[1]), atoi(words[2]));
		return 0;
	}
	starts_with(SCHED_OTHER, 0);
	starts_with(SCHED_BATCH, 0);
	starts_with(SCHED_FIFO, 10);
	starts_with(SCHED_RR, 3);
	return 0;
}
