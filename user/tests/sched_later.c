/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the main thread changes of its own (processors, policy, niceness, the priority at a disk)
 * has whom it makes later, and not who is there already. Each case in a child of its own, as the
 * first thread may come before the change or after it.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define IDLE_LOWEST ((2 << 13) | 6)

struct told {
	cpu_set_t processors;
	int policy, priority, niceness, disk_priority;
	/* Of the kernel thread that runs it. */
	int real_policy;
	char real_processors[1024];
};

static cpu_set_t all, first, second;
static sem_t goes_on;

/* A field of the calling kernel thread's, by its place behind the name. */
static int field(int wanted)
{
	char line[1024], *at;
	FILE *file = fopen("/proc/thread-self/stat", "r");

	CHECK(file && fgets(line, sizeof(line), file));
	fclose(file);
	at = strrchr(line, ')') + 1;
	for (int i = 3; i < wanted; i++)
		at = strchr(at + 1, ' ');
	return atoi(at);
}

static void real_processors(char *out, size_t bytes)
{
	char line[1024];
	FILE *file = fopen("/proc/thread-self/status", "r");

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, "Cpus_allowed_list:", 18) == 0)
			snprintf(out, bytes, "%s", line + 18);
	fclose(file);
}

static void tell(struct told *told)
{
	struct sched_param param;

	CHECK_EQ(pthread_getaffinity_np(pthread_self(), sizeof(all), &told->processors), 0);
	CHECK_EQ(pthread_getschedparam(pthread_self(), &told->policy, &param), 0);
	CHECK_EQ(sched_getscheduler(0), told->policy);
	told->priority = param.sched_priority;
	errno = 0;
	told->niceness = getpriority(PRIO_PROCESS, 0);
	CHECK_EQ(errno, 0);
	told->disk_priority = syscall(SYS_ioprio_get, 1, 0);
	told->real_policy = field(41);
	real_processors(told->real_processors, sizeof(told->real_processors));
}

static void *tells(void *told)
{
	tell(told);
	return NULL;
}

static void *tells_later(void *told)
{
	CHECK_EQ(sem_wait(&goes_on), 0);
	tell(told);
	return NULL;
}

static struct told of_new(void)
{
	struct told told;

	join_thread(start_thread(tells, &told));
	return told;
}

static void use(const cpu_set_t *processors)
{
	CHECK_EQ(sched_setaffinity(0, sizeof(*processors), processors), 0);
}

static void in_child(void (*body)(void))
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		body();
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static void old_threads_stay(void)
{
	struct told before = of_new(), old, new;
	struct sched_param none = { 0 };
	pthread_t thread = start_thread(tells_later, &old);

	use(&first);
	CHECK_EQ(nice(3), before.niceness + 3);
	CHECK_EQ(syscall(SYS_ioprio_set, 1, 0, IDLE_LOWEST), 0);
	CHECK_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
	new = of_new();
	CHECK_EQ(sem_post(&goes_on), 0);
	join_thread(thread);
	CHECK(CPU_EQUAL(&old.processors, &all));
	CHECK_EQ(old.policy, SCHED_OTHER);
	CHECK_EQ(old.niceness, before.niceness);
	CHECK_EQ(old.disk_priority, before.disk_priority);
	CHECK(CPU_EQUAL(&new.processors, &first));
	CHECK_EQ(new.policy, SCHED_BATCH);
	CHECK_EQ(new.niceness, before.niceness + 3);
	CHECK_EQ(new.disk_priority, IDLE_LOWEST);
}

/* Each thread may use what it is told, also the kernel thread that runs it. */
static void each_has_its_processors(void)
{
	struct told one, other;

	use(&first);
	one = of_new();
	CHECK(CPU_EQUAL(&one.processors, &first));
	use(&second);
	other = of_new();
	CHECK(CPU_EQUAL(&other.processors, &second));
	if (!CPU_EQUAL(&first, &second))
		CHECK(strcmp(other.real_processors, one.real_processors) != 0);
	use(&all);
	one = of_new();
	CHECK(CPU_EQUAL(&one.processors, &all));
	real_processors(other.real_processors, sizeof(other.real_processors));
	CHECK(strcmp(other.real_processors, one.real_processors) == 0);
}

/* As OpenMP does it: the main thread has the first one, and others by their attributes. */
static void attributes_say(void)
{
	struct told told, main;
	pthread_attr_t attr;
	pthread_t thread;

	use(&first);
	tell(&main);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setaffinity_np(&attr, sizeof(second), &second), 0);
	CHECK_EQ(pthread_create(&thread, &attr, tells, &told), 0);
	join_thread(thread);
	CHECK(CPU_EQUAL(&told.processors, &second));
	if (!CPU_EQUAL(&first, &second))
		CHECK(strcmp(told.real_processors, main.real_processors) != 0);
}

static int may_be_urgent(int priority)
{
	struct sched_param param = { priority };

	if (sched_setscheduler(0, SCHED_FIFO, &param) == 0)
		return 1;
	CHECK_EQ(errno, EPERM);
	puts("skip: no real-time policy is permitted");
	fflush(stdout);
	return 0;
}

static void is_urgent(void)
{
	struct told told = of_new();

	CHECK_EQ(told.policy, SCHED_FIFO);
	CHECK_EQ(told.priority, 5);
	CHECK_EQ(told.real_policy, SCHED_FIFO);
}

static void is_plain(void)
{
	struct sched_param none = { 0 };

	CHECK_EQ(sched_setscheduler(0, SCHED_OTHER, &none), 0);
	struct told told = of_new();
	CHECK_EQ(told.policy, SCHED_OTHER);
	CHECK_EQ(told.real_policy, SCHED_OTHER);
}

static void urgent_first(void)
{
	if (!may_be_urgent(5))
		return;
	is_urgent();
	is_plain();
}

static void urgent_later(void)
{
	is_plain();
	if (!may_be_urgent(5))
		return;
	is_urgent();
	is_plain();
}

static void urgent_with_plain_first(void)
{
	struct told told;
	pthread_attr_t attr;
	pthread_t thread;

	if (!may_be_urgent(5))
		return;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED), 0);
	CHECK_EQ(pthread_create(&thread, &attr, tells, &told), 0);
	join_thread(thread);
	CHECK_EQ(told.policy, SCHED_OTHER);
	CHECK_EQ(told.real_policy, SCHED_OTHER);
	is_urgent();
}

static void urgent_but_not_handed_on(void)
{
	struct sched_param param = { 5 };

	if (!may_be_urgent(5))
		return;
	CHECK_EQ(sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param), 0);
	struct told told = of_new();
	CHECK_EQ(told.policy, SCHED_OTHER);
	CHECK_EQ(told.real_policy, SCHED_OTHER);
	CHECK_EQ(told.priority, 0);
}

int main(void)
{
	if (sched_getscheduler(0) != SCHED_OTHER || getpriority(PRIO_PROCESS, 0) > 16)
		SKIP("it begins with another policy, or is nice already");
	CHECK_EQ(sem_init(&goes_on, 0, 0), 0);
	CHECK_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all) && !CPU_COUNT(&first))
			CPU_SET(cpu, &first);
		else if (CPU_ISSET(cpu, &all) && !CPU_COUNT(&second))
			CPU_SET(cpu, &second);
	}
	if (!CPU_COUNT(&second))
		second = first;
	in_child(old_threads_stay);
	in_child(each_has_its_processors);
	in_child(attributes_say);
	in_child(urgent_first);
	in_child(urgent_later);
	in_child(urgent_with_plain_first);
	in_child(urgent_but_not_handed_on);
	return 0;
}
