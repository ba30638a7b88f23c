/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A child's thread has the number that the kernel gave it, in whatever way the child was made, by
 * whichever thread, and whether that one had asked for its own before: calls about threads accept
 * it and act on the child alone. A child that has its parent's memory leaves nothing there.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { STACK_BYTES = 256 << 10, NICER = 1 };

static char stacks[STACK_BYTES] __attribute__((aligned(64)));
static int niceness;
static volatile pid_t handled_by;

static void handler(int number)
{
	(void)number;
	handled_by = gettid();
}

/* What a child finds wrong, 0 for nothing; it may have its parent's memory. */
static int wrong_in_child(void)
{
	pid_t number = gettid();
	cpu_set_t set;

	if (number != getpid() || syscall(SYS_gettid) != number || gettid() != number)
		return 1;
	if (tgkill(getpid(), number, 0) != 0 || syscall(SYS_tkill, number, 0) != 0)
		return 2;
	if (pthread_kill(pthread_self(), 0) != 0 || raise(0) != 0)
		return 3;
	if (sched_getaffinity(number, sizeof set, &set) != 0 ||
	    sched_setaffinity(number, sizeof set, &set) != 0)
		return 4;
	if (setpriority(PRIO_PROCESS, (id_t)number, niceness + 2 * NICER) != 0 ||
	    getpriority(PRIO_PROCESS, 0) != niceness + 2 * NICER ||
	    getpriority(PRIO_PROCESS, (id_t)number) != niceness + 2 * NICER)
		return 5;
	if (setpriority(PRIO_PROCESS, 0, niceness + 3 * NICER) != 0 ||
	    syscall(SYS_getpriority, PRIO_PROCESS, number) != 20 - niceness - 3 * NICER)
		return 6;
	errno = 0;
	if (nice(NICER) == -1 && errno != 0)
		return 7;
	if (sched_getscheduler(number) != SCHED_OTHER)
		return 8;
	return 0;
}

/* One that has its own memory. */
static int wrong_with_memory(pid_t makers)
{
	pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	int wrong = wrong_in_child();

	if (wrong)
		return wrong;
	if (makers == gettid())
		return 20;
	/* Its maker is no thread of this process. */
	if (tgkill(getpid(), makers, 0) != -1 || errno != ESRCH)
		return 21;
	if (pthread_mutex_lock(&lock) || pthread_mutex_lock(&lock) != EDEADLK ||
	    pthread_mutex_unlock(&lock) || pthread_mutex_unlock(&lock) != EPERM)
		return 22;
	handled_by = 0;
	if (raise(SIGUSR1) != 0 || handled_by != gettid())
		return 23;
	handled_by = 0;
	if (tgkill(getpid(), gettid(), SIGUSR1) != 0 || handled_by != gettid())
		return 24;
	handled_by = 0;
	if (pthread_kill(pthread_self(), SIGUSR1) != 0 || handled_by != gettid())
		return 25;
	return 0;
}

static void check_end(const char *how, pid_t child)
{
	int status;

	CHECK(child > 0);
	CHECK_EQ(waitpid(child, &status, __WALL), child);
	if (status != 0)
		printf("%s: ", how);
	CHECK_EQ(status, 0);
}

static int cloned(void *makers)
{
	(void)makers;
	return wrong_in_child();
}

static int cloned_with_memory(void *makers)
{
	return wrong_with_memory((pid_t)(long)makers);
}

/* Children in all ways; the kernel's own call makes one as clone does. */
static void make_children(pid_t number)
{
	void *high = stacks + sizeof stacks, *makers = (void *)(long)number;
	pid_t child = fork();

	if (child == 0)
		_exit(wrong_with_memory(number));
	check_end("fork", child);
	child = fork();
	if (child == 0) {
		/* And one of a child's. */
		pid_t own = gettid(), next = fork();

		if (next == 0)
			_exit(wrong_with_memory(own));
		check_end("fork in a child", next);
		_exit(wrong_in_child());
	}
	check_end("fork", child);
	child = vfork();
	if (child == 0)
		_exit(wrong_in_child());
	check_end("vfork", child);
	child = (pid_t)syscall(SYS_fork);
	if (child == 0)
		_exit(wrong_in_child());
	check_end("fork by number", child);
	check_end("clone", clone(cloned, high, SIGCHLD, makers));
	if (number == getpid())
		check_end("clone", clone(cloned_with_memory, high, SIGCHLD, makers));
	check_end("clone with memory", clone(cloned, high, CLONE_VM | CLONE_VFORK | SIGCHLD, makers));
}

static void *makes(void *has_asked)
{
	pid_t number = has_asked ? gettid() : 0;

	if (has_asked) {
		make_children(number);
	} else {
		/* The child asks first. */
		pid_t child = vfork();

		if (child == 0)
			_exit(wrong_in_child());
		check_end("vfork", child);
		CHECK_EQ(syscall(SYS_gettid), gettid());
		CHECK_EQ(tgkill(getpid(), gettid(), 0), 0);
	}
	if (has_asked) {
		CHECK_EQ(gettid(), number);
		CHECK_EQ(syscall(SYS_gettid), number);
	}
	CHECK_EQ(getpriority(PRIO_PROCESS, 0), niceness);
	CHECK_EQ(getpriority(PRIO_PROCESS, (id_t)gettid()), niceness);
	handled_by = 0;
	CHECK_EQ(tgkill(getpid(), gettid(), SIGUSR1), 0);
	CHECK_EQ(handled_by, gettid());
	return NULL;
}

int main(void)
{
	struct sigaction action = { .sa_handler = handler };

	niceness = getpriority(PRIO_PROCESS, 0);
	if (niceness > 19 - 4 * NICER)
		SKIP("nothing is nicer here");
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	makes(NULL);
	CHECK_EQ(gettid(), getpid());
	makes(&niceness);
	join_thread(start_thread(makes, NULL));
	join_thread(start_thread(makes, &niceness));
	makes(&niceness);
	CHECK_EQ(gettid(), getpid());
	return 0;
}
