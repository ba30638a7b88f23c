/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program that a thread starts has what the kernel's scheduler was told for that thread: its
 * processors, its niceness, its priority at a disk. This program is started by itself, and looks.
 * Where threads are not the kernel's it may have been running for a moment by then.
 */
#define _GNU_SOURCE
#include "processors.h"
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { NICENESS = 19, WHO_PROCESS = 1, AT_DISK = 2 << 13 | 7 };

/* The last one; its number. */
static int last_of(cpu_set_t *set)
{
	int last = CPU_SETSIZE - 1;
	CHECK_EQ(sched_getaffinity(getpid(), sizeof(*set), set), 0);
	while (!CPU_ISSET(last, set))
		last--;
	CPU_ZERO(set);
	CPU_SET(last, set);
	return last;
}

static int is_as_told(int has_policy)
{
	cpu_set_t known;
	CHECK_EQ(sched_getaffinity(0, sizeof(known), &known), 0);
	return CPU_COUNT(&known) == 1 && getpriority(PRIO_PROCESS, 0) == NICENESS &&
	       syscall(SYS_ioprio_get, WHO_PROCESS, 0) == AT_DISK &&
	       sched_getscheduler(0) == (has_policy ? SCHED_OTHER : SCHED_BATCH);
}

/* The child. */
static int look(int has_policy)
{
	for (int i = 0; i < 10000 && !is_as_told(has_policy); i++)
		usleep(1000);
	return is_as_told(has_policy) ? 0 : 1;
}

/* The child, where it had chosen this processor for itself. */
static int stays_there(int last)
{
	cpu_set_t before, now;
	CHECK_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
	usleep(20000);
	CHECK_EQ(sched_getaffinity(0, sizeof(now), &now), 0);
	return !CPU_EQUAL(&before, &now) || CPU_COUNT(&now) != 1 || !CPU_ISSET(last, &now);
}

static void has_looked(pid_t child)
{
	int status;
	CHECK(child > 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static void *starts(void *arg)
{
	static char self[] = "/proc/self/exe", look_word[] = "look", policy_word[] = "policy";
	static char there_word[] = "there";
	char *words[] = { self, look_word, NULL }, *others[] = { self, policy_word, NULL };
	char number[16], *there_words[] = { self, there_word, number, NULL };
	struct sched_param param = { 0 };
	posix_spawnattr_t attributes;
	char command[128];
	cpu_set_t one, last;
	pid_t child;

	snprintf(number, sizeof(number), "%d", last_of(&last));
	first_of(&one);
	CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_BATCH, &param), 0);
	CHECK_EQ(setpriority(PRIO_PROCESS, gettid(), NICENESS), 0);
	CHECK_EQ(syscall(SYS_ioprio_set, WHO_PROCESS, 0, AT_DISK), 0);

	CHECK_EQ(posix_spawn(&child, self, NULL, NULL, words, environ), 0);
	has_looked(child);
	CHECK_EQ(posix_spawnattr_init(&attributes), 0);
	CHECK_EQ(posix_spawnattr_setschedpolicy(&attributes, SCHED_OTHER), 0);
	CHECK_EQ(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSCHEDULER), 0);
	CHECK_EQ(posix_spawnp(&child, self, NULL, &attributes, others, environ), 0);
	has_looked(child);
	CHECK_EQ(posix_spawnattr_destroy(&attributes), 0);
	/* Whoever does not want to know the number. */
	CHECK_EQ(posix_spawn(NULL, self, NULL, NULL, words, environ), 0);
	int status;
	CHECK(wait(&status) > 0);
	CHECK_EQ(status, 0);

	child = vfork();
	if (child == 0) {
		execv(self, words);
		_exit(3);
	}
	has_looked(child);
	/* What it sets for itself stays. */
	child = vfork();
	if (child == 0) {
		if (sched_setaffinity(0, sizeof(last), &last))
			_exit(4);
		execv(self, there_words);
		_exit(3);
	}
	has_looked(child);
	child = fork();
	if (child == 0)
		_exit(!is_as_told(0));
	has_looked(child);
	snprintf(command, sizeof(command), "exec /proc/%d/exe look", getpid());
	CHECK_EQ(system(command), 0);

	/* The thread is what it was; so is what comes after it. */
	CHECK_EQ(getpriority(PRIO_PROCESS, gettid()), NICENESS);
	return arg;
}

static void *starts_plain(void *arg)
{
	const int niceness = getpriority(PRIO_PROCESS, getpid());
	cpu_set_t before, now;
	CHECK_EQ(sched_getaffinity(getpid(), sizeof(before), &before), 0);
	pid_t child = fork();
	if (child == 0) {
		CHECK_EQ(sched_getaffinity(0, sizeof(now), &now), 0);
		_exit(!CPU_EQUAL(&before, &now) || getpriority(PRIO_PROCESS, 0) != niceness);
	}
	has_looked(child);
	return arg;
}

int main(int count, char **words)
{
	if (count > 1 && strcmp(words[1], "there") == 0)
		return stays_there(atoi(words[2]));
	if (count > 1)
		return look(strcmp(words[1], "policy") == 0);
	join_thread(start_thread(starts, NULL));
	join_thread(start_thread(starts_plain, NULL));
	return 0;
}
