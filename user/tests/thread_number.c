/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Each thread has a number of its own, the same at each call, which calls about threads accept.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { THREADS = 8 };
static pid_t numbers[THREADS];
static int niceness;

static void *asks(void *place)
{
	pid_t number = gettid();
	*(pid_t *)place = number;
	int nicer = niceness < 19 ? niceness + 1 : 19;
	CHECK_EQ(getpriority(PRIO_PROCESS, 0), niceness);
	CHECK_EQ(nice(1), nicer);
	CHECK_EQ(getpriority(PRIO_PROCESS, 0), nicer);
	for (int i = 0; i < 20; i++) {
		sched_yield();
		sleep_ms(1);
		CHECK_EQ(gettid(), number);
		CHECK_EQ(syscall(SYS_gettid), number);
	}
	CHECK(number != getpid());
	CHECK_EQ(syscall(SYS_tgkill, getpid(), number, 0), 0);
	CHECK_EQ(tgkill(getpid(), number, 0), 0);
	cpu_set_t set;
	CHECK_EQ(sched_getaffinity(number, sizeof set, &set), 0);
	CHECK(CPU_COUNT(&set) > 0);
	CHECK_EQ(sched_setaffinity(number, sizeof set, &set), 0);
	CHECK_EQ(sched_setaffinity(0, sizeof set, &set), 0);
	CPU_ZERO(&set);
	CHECK_ERRNO(sched_setaffinity(0, sizeof set, &set), EINVAL);
	CHECK_EQ(setpriority(PRIO_PROCESS, (id_t)number, 6), 0);
	CHECK_EQ(getpriority(PRIO_PROCESS, (id_t)number), 6);
	char name[16];
	CHECK_EQ(prctl(PR_SET_NAME, "a name that is too long"), 0);
	CHECK_EQ(prctl(PR_GET_NAME, name), 0);
	CHECK_EQ(strcmp(name, "a name that is "), 0);
	CHECK_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
	CHECK_EQ(strcmp(name, "a name that is "), 0);
	CHECK_EQ(syscall(SYS_prctl, PR_SET_NAME, "by number"), 0);
	CHECK_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
	CHECK_EQ(strcmp(name, "by number"), 0);
	return NULL;
}

int main(void)
{
	CHECK_EQ(gettid(), getpid());
	niceness = getpriority(PRIO_PROCESS, 0);
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(asks, &numbers[i]);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	for (int i = 0; i < THREADS; i++)
		for (int k = 0; k < i; k++)
			CHECK(numbers[i] != numbers[k]);
	CHECK_EQ(gettid(), getpid());
	CHECK_EQ(getpriority(PRIO_PROCESS, 0), niceness);
	return 0;
}
