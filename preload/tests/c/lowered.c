/* SPDX-License-Identifier: MIT OR Apache-2.0
 * An ordinary user's thread that somebody put into SCHED_IDLE, as the Mediator does, creates one
 * with a policy of its own, and sets its own. Prints what pthread_create and pthread_setschedparam
 * returned; the thread, if there is one, has run then. */
#define _GNU_SOURCE
#include "own_table.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

static int ran;

static void *run(void *argument)
{
	ran = 1;
	return argument;
}

int main(void)
{
	const struct sched_param zero = {0};
	const struct rlimit none = {0, 0};
	pthread_attr_t attributes;
	pthread_t thread;
	const struct sched_param urgent = {.sched_priority = 1};
	struct sched_param param = {0};
	int result, policy = -1;

	CHECK_EQUAL(pthread_create(&thread, NULL, run, NULL), 0);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK_EQUAL(setrlimit(RLIMIT_NICE, &none), 0);
	/* Of this thread alone, and past the library: it is the only one. */
	if (geteuid() == 0)
		CHECK_EQUAL(syscall(SYS_setuid, 65534), 0);
	CHECK_EQUAL(syscall(SYS_sched_setscheduler, 0, SCHED_IDLE, &zero), 0);
	if (syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &zero) == 0)
		SKIP("this user may leave SCHED_IDLE");
	pthread_attr_init(&attributes);
	CHECK_EQUAL(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED), 0);
	CHECK_EQUAL(pthread_attr_setschedpolicy(&attributes, SCHED_OTHER), 0);
	ran = 0;
	result = pthread_create(&thread, &attributes, run, NULL);
	if (result == 0)
		CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK_EQUAL(ran, result == 0);
	printf("%d ", result);
	CHECK(pthread_setschedparam(pthread_self(), SCHED_FIFO, &urgent) != 0);
	result = pthread_setschedparam(pthread_self(), SCHED_OTHER, &zero);
	CHECK_EQUAL(pthread_getschedparam(pthread_self(), &policy, &param), 0);
	CHECK_EQUAL(policy, result == 0 ? SCHED_OTHER : SCHED_IDLE);
	CHECK_EQUAL(syscall(SYS_sched_getscheduler, 0), SCHED_IDLE);
	/* To be idle is permitted, and believed. */
	CHECK_EQUAL(pthread_setschedparam(pthread_self(), SCHED_IDLE, &zero), 0);
	CHECK_EQUAL(pthread_setschedparam(pthread_self(), SCHED_BATCH, &zero), EPERM);
	printf("%d\n", result);
	return 0;
}
