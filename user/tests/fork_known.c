/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the kernel knows a forked child by is what its thread had: the name, the processors, the
 * niceness; and what the child changes by its pthread_t the kernel is told.
 */
#define _GNU_SOURCE
#include "processors.h"
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* What anybody may have. */
enum { NICENESS = 19 };

static void is_named(const char *name)
{
	char known[16], got[16], text[32] = { 0 };
	CHECK_EQ(prctl(PR_GET_NAME, known), 0);
	CHECK(strcmp(known, name) == 0);
	CHECK_EQ(pthread_getname_np(pthread_self(), got, sizeof(got)), 0);
	CHECK(strcmp(got, name) == 0);
	FILE *file = fopen("/proc/self/comm", "r");
	CHECK(file && fgets(text, sizeof(text), file));
	fclose(file);
	text[strcspn(text, "\n")] = 0;
	CHECK(strcmp(text, name) == 0);
}

static void runs_on(const cpu_set_t *set)
{
	char line[256];
	cpu_set_t known;
	int is_told = 0;
	CHECK_EQ(sched_getaffinity(0, sizeof(known), &known), 0);
	CHECK(CPU_EQUAL(&known, set));
	CHECK_EQ(pthread_getaffinity_np(pthread_self(), sizeof(known), &known), 0);
	CHECK(CPU_EQUAL(&known, set));
	FILE *file = fopen("/proc/self/status", "r");
	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		int first, end;
		if (sscanf(line, "Cpus_allowed_list: %d%n", &first, &end) == 1) {
			CHECK(CPU_ISSET(first, set) && line[end] == '\n');
			is_told = 1;
		}
	}
	fclose(file);
	CHECK(is_told);
}

static int is_niced(void)
{
	long niceness = -1;
	FILE *file = fopen("/proc/self/stat", "r");
	CHECK(file);
	CHECK_EQ(fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d "
			      "%*d %*d %ld", &niceness), 1);
	fclose(file);
	return niceness == NICENESS && getpriority(PRIO_PROCESS, 0) == NICENESS;
}

static void changes(const cpu_set_t *all)
{
	struct sched_param param = { 0 };
	cpu_set_t known;
	int policy;
	CHECK_EQ(pthread_setname_np(pthread_self(), "child"), 0);
	is_named("child");
	CHECK_EQ(pthread_setaffinity_np(pthread_self(), sizeof(*all), all), 0);
	CHECK_EQ(sched_getaffinity(0, sizeof(known), &known), 0);
	CHECK(CPU_EQUAL(&known, all));
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_BATCH, &param), 0);
	CHECK_EQ(sched_getscheduler(0), SCHED_BATCH);
	CHECK_EQ(pthread_getschedparam(pthread_self(), &policy, &param), 0);
	CHECK_EQ(policy, SCHED_BATCH);
}

static void *forks(void *arg)
{
	cpu_set_t all, one;
	int status;
	CHECK_EQ(sched_getaffinity(getpid(), sizeof(all), &all), 0);
	first_of(&one);
	CHECK_EQ(pthread_setname_np(pthread_self(), "forks"), 0);
	CHECK_EQ(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
	CHECK_EQ(setpriority(PRIO_PROCESS, gettid(), NICENESS), 0);
	pid_t child = fork();
	if (child == 0) {
		is_named("forks");
		runs_on(&one);
		CHECK(is_niced());
		changes(&all);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	return arg;
}

/* One that was given nothing has the name of who made it. */
static void *forks_unnamed(void *name)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		is_named(name);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	return NULL;
}

int main(void)
{
	char name[16];
	CHECK_EQ(pthread_getname_np(pthread_self(), name, sizeof(name)), 0);
	join_thread(start_thread(forks_unnamed, name));
	join_thread(start_thread(forks, NULL));
	return 0;
}
