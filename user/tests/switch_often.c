/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that have switched thousands of times, and those that come after them, keep what is
 * theirs: variables and errno, in handlers, over fork, vfork and a program that is run, and where a
 * thread is another kernel thread's for a while. A filter that does not know of system calls that
 * the C library never makes is no reason to end, whenever it is installed.
 */
#define _GNU_SOURCE
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { THREADS = 12, SWITCHES = 6000, FORKS_AT = 5000, FEW = 100 };

extern char **environ;

static __thread int turn, number;
static __thread pthread_t self;
static int handled, filtered;

static void handler(int signal)
{
	(void)signal;
	CHECK(pthread_equal(self, pthread_self()));
	add_value(&handled, 1);
}

static void wait_for(pid_t child)
{
	int status;
	CHECK(child > 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static void *few(void *arg)
{
	for (int i = 0; i < FEW; i++) {
		CHECK_EQ(turn, i);
		turn++;
		sched_yield();
	}
	return arg;
}

static void children(void)
{
	char *arguments[] = { "true", NULL };
	pid_t child = fork();
	if (child == 0) {
		CHECK(pthread_equal(self, pthread_self()));
		CHECK_EQ(errno, number);
		CHECK_EQ(turn, FORKS_AT);
		for (int i = 0; i < 3; i++)
			join_thread(start_thread(few, NULL));
		CHECK_EQ(turn, FORKS_AT);
		_exit(0);
	}
	wait_for(child);
	CHECK_EQ(posix_spawnp(&child, "true", NULL, NULL, arguments, environ), 0);
	wait_for(child);
	child = vfork();
	if (child == 0)
		_exit(pthread_equal(self, pthread_self()) ? 0 : 1);
	wait_for(child);
}

static void *often(void *arg)
{
	number = (int)(size_t)arg + 1;
	self = pthread_self();
	for (int i = 0; i < SWITCHES; i++) {
		CHECK_EQ(turn, i);
		CHECK(pthread_equal(self, pthread_self()));
		if (i)
			CHECK_EQ(errno, number);
		errno = number;
		if (i == FORKS_AT)
			children();
		if (i % 1000 == 0)
			CHECK_EQ(pthread_kill(self, SIGUSR1), 0);
		errno = number;
		turn++;
		sched_yield();
	}
	return arg;
}

static void *beside_filter(void *arg)
{
	for (int i = 0; i < SWITCHES; i++) {
		CHECK_EQ(turn, i);
		turn++;
		sched_yield();
		if (i == FEW)
			await_value(&filtered, 1);
	}
	return arg;
}

/* Ends the process for what few programs call. */
static int filter(int way)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_modify_ldt
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_modify_ldt, 0, 1),
#else
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_acct, 0, 1),
#endif
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof rules / sizeof *rules, rules };
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	switch (way) {
	case 0:
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	case 1:
		return syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	default:
		return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				    SECCOMP_FILTER_FLAG_TSYNC, &program);
	}
}

/* The threads begin before there is a filter for them, or after. */
static void with_filter(int way, int before)
{
	pthread_t threads[4];
	pid_t child = fork();
	if (child == 0) {
		if (!before && filter(way) != 0)
			_exit(0); /* No filters here. */
		set_value(&filtered, !before);
		for (int i = 0; i < 4; i++)
			threads[i] = start_thread(beside_filter, NULL);
		sleep_ms(5);
		if (before && filter(way) != 0)
			_exit(0);
		set_value(&filtered, 1);
		for (int i = 0; i < 4; i++)
			join_thread(threads[i]);
		_exit(0);
	}
	wait_for(child);
}

int main(void)
{
	pthread_t threads[THREADS];
	struct sigaction action = { .sa_handler = handler };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	for (int way = 0; way < 3; way++)
		for (int before = 0; before < 2; before++)
			with_filter(way, before);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < THREADS; i++)
			threads[i] = start_thread(often, (void *)(size_t)i);
		for (int i = 0; i < THREADS; i++)
			CHECK_EQ((size_t)join_thread(threads[i]), (size_t)i);
	}
	CHECK(handled > 0);
	return 0;
}
