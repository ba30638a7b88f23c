/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread's name is its own, whoever gives it and by whatever call, and another thread's is told
 * and changed by its pthread_t. The name in /proc/self/comm is the main thread's.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/prctl.h>

#define THREADS 20

static int named, seen, renamed;

static void *has_name(void *arg)
{
	char want[16], got[16];
	long number = (intptr_t)arg;

	snprintf(want, sizeof want, "thread %ld", number);
	if (number % 2)
		CHECK_EQ(prctl(PR_SET_NAME, want), 0);
	else
		CHECK_EQ(pthread_setname_np(pthread_self(), want), 0);
	add_value(&named, 1);
	await_value(&named, THREADS);
	for (int i = 0; i < 50; i++) {
		sched_yield();
		CHECK_EQ(prctl(PR_GET_NAME, got), 0);
		CHECK_EQ(strcmp(got, want), 0);
		CHECK_EQ(pthread_getname_np(pthread_self(), got, sizeof got), 0);
		CHECK_EQ(strcmp(got, want), 0);
	}
	add_value(&seen, 1);
	await_value(&renamed, 1);
	/* Main has given it another one. */
	CHECK_EQ(prctl(PR_GET_NAME, got), 0);
	snprintf(want, sizeof want, "other %ld", number);
	CHECK_EQ(strcmp(got, want), 0);
	return arg;
}

static void check_main(const char *want)
{
	char got[16] = "";
	FILE *comm = fopen("/proc/self/comm", "r");

	CHECK(comm != NULL && fgets(got, sizeof got, comm) != NULL);
	fclose(comm);
	got[strcspn(got, "\n")] = '\0';
	CHECK_EQ(strcmp(got, want), 0);
	CHECK_EQ(prctl(PR_GET_NAME, got), 0);
	CHECK_EQ(strcmp(got, want), 0);
}

int main(void)
{
	pthread_t threads[THREADS];
	char name[16];

	CHECK_EQ(prctl(PR_SET_NAME, "the main one"), 0);
	for (intptr_t i = 0; i < THREADS; i++)
		threads[i] = start_thread(has_name, (void *)i);
	await_value(&named, THREADS);
	check_main("the main one");
	for (int i = 0; i < THREADS; i++) {
		char want[16];
		snprintf(want, sizeof want, "thread %d", i);
		CHECK_EQ(pthread_getname_np(threads[i], name, sizeof name), 0);
		CHECK_EQ(strcmp(name, want), 0);
		CHECK_EQ(pthread_getname_np(threads[i], name, 3), ERANGE);
		CHECK_EQ(pthread_setname_np(threads[i], "a name that is too long"), ERANGE);
	}
	await_value(&seen, THREADS);
	for (int i = 0; i < THREADS; i++) {
		snprintf(name, sizeof name, "other %d", i);
		CHECK_EQ(pthread_setname_np(threads[i], name), 0);
	}
	set_value(&renamed, 1);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	check_main("the main one");
	return 0;
}
