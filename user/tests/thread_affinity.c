/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Processors and policies that a thread is given are told again, by its number and its pthread_t,
 * by itself and by others; the process's and other threads' stay.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static pid_t number;
static int ready;

static cpu_set_t first_of(const cpu_set_t *all)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, all)) {
			CPU_SET(cpu, &one);
			break;
		}
	return one;
}

static void check_attributes(const cpu_set_t *want)
{
	pthread_attr_t attr;
	cpu_set_t got;
	CHECK_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
	CHECK_EQ(pthread_attr_getaffinity_np(&attr, sizeof got, &got), 0);
	CHECK(CPU_EQUAL(&got, want));
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
}

static void *has_these(void *want)
{
	cpu_set_t got;
	CHECK_EQ(pthread_getaffinity_np(pthread_self(), sizeof got, &got), 0);
	CHECK(CPU_EQUAL(&got, (cpu_set_t *)want));
	check_attributes(want);
	return NULL;
}

/* A thread is given what its attributes say, or else what the one that makes it has. */
static void check_made(cpu_set_t *own, cpu_set_t *one)
{
	pthread_attr_t attr;
	pthread_t thread;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setaffinity_np(&attr, sizeof *one, one), 0);
	CHECK_EQ(pthread_create(&thread, &attr, has_these, one), 0);
	join_thread(thread);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	join_thread(start_thread(has_these, own));
}

static void *has_processors(void *arg)
{
	cpu_set_t all, one, got, none;
	CPU_ZERO(&none);
	CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
	one = first_of(&all);
	CHECK_EQ(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
	CHECK_EQ(pthread_getaffinity_np(pthread_self(), sizeof got, &got), 0);
	CHECK(CPU_EQUAL(&got, &one));
	check_made(&one, &one);
	CHECK_EQ(sched_getaffinity(gettid(), sizeof got, &got), 0);
	CHECK(CPU_EQUAL(&got, &one));
	CHECK_EQ(sched_setaffinity(0, sizeof all, &all), 0);
	CHECK_EQ(sched_getaffinity(0, sizeof got, &got), 0);
	CHECK(CPU_EQUAL(&got, &all));
	check_made(&all, &one);
	CHECK_EQ(pthread_setaffinity_np(pthread_self(), sizeof none, &none), EINVAL);
	CHECK_ERRNO(sched_getaffinity(0, 3, &got), EINVAL);

	struct sched_param param = { .sched_priority = 0 };
	CHECK_EQ(sched_getscheduler(0), SCHED_OTHER);
	CHECK_EQ(sched_setscheduler(gettid(), SCHED_BATCH, &param), 0);
	CHECK_EQ(sched_getscheduler(gettid()), SCHED_BATCH);
	CHECK_EQ(sched_getparam(0, &param), 0);
	CHECK_EQ(param.sched_priority, 0);
	param.sched_priority = 5;
	CHECK_ERRNO(sched_setparam(0, &param), EINVAL);
	CHECK_ERRNO(sched_setscheduler(0, 77, &param), EINVAL);
	number = gettid();
	set_value(&ready, 1);
	await_value(&ready, 2);
	CHECK_EQ(sched_getaffinity(0, sizeof got, &got), 0);
	CHECK(CPU_EQUAL(&got, &one));
	CHECK_EQ(sched_getscheduler(0), SCHED_OTHER);
	return arg;
}

/* A set without a processor that there is makes no thread. */
static void without_processors(void)
{
	pthread_t thread;
	pthread_attr_t attr;
	cpu_set_t none;

	CPU_ZERO(&none);
	CPU_SET(CPU_SETSIZE - 1, &none);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setaffinity_np(&attr, sizeof none, &none), 0);
	if (sysconf(_SC_NPROCESSORS_CONF) < CPU_SETSIZE)
		CHECK_EQ(pthread_create(&thread, &attr, has_these, &none), EINVAL);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
}

int main(void)
{
	cpu_set_t all, one, got;
	CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
	one = first_of(&all);
	pthread_t thread = start_thread(has_processors, NULL);
	await_value(&ready, 1);
	struct sched_param param = { .sched_priority = 0 };
	CHECK_EQ(sched_setaffinity(number, sizeof one, &one), 0);
	CHECK_EQ(pthread_getaffinity_np(thread, sizeof got, &got), 0);
	CHECK(CPU_EQUAL(&got, &one));
	CHECK_EQ(sched_getscheduler(number), SCHED_BATCH);
	CHECK_EQ(sched_setscheduler(number, SCHED_OTHER, &param), 0);
	set_value(&ready, 2);
	join_thread(thread);
	/* The kernel knows the number for a moment longer. */
	for (long end = now_ms() + 40000; sched_getscheduler(number) != -1 && now_ms() < end;)
		sleep_ms(1);
	CHECK_ERRNO(sched_getscheduler(number), ESRCH);
	CHECK_ERRNO(sched_setaffinity(number, sizeof one, &one), ESRCH);
	/* Whoever runs the threads: nobody's processors have changed. */
	CHECK_EQ(sched_getaffinity(0, sizeof got, &got), 0);
	CHECK(CPU_EQUAL(&got, &all));
	without_processors();
	return 0;
}
