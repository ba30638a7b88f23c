/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * SIGPIPE and SIGXFSZ that are pending for the process are pending in the program that it becomes,
 * whichever thread makes it that; not in a program that a child becomes. Where there is no such
 * program they stay pending for the process all the time, one of each, beside those that are
 * pending for the thread itself.
 */
#define _GNU_SOURCE
#include "check.h"
#include "own_stack.h"
#include "pending.h"
#include <signal.h>
#include <sys/wait.h>

enum { BY_MAIN, BY_THREAD, BY_KERNEL_THREAD, BY_CHILD, BY_VFORK, WAYS };
enum { ROUNDS = 200 };

static const int numbers[] = { SIGPIPE, SIGXFSZ };
static char *own_path;
static sigset_t both;
static int stage, stop;

/* The new program: exits with how many are pending. */
static int look(pid_t sender)
{
	struct timespec at_once = { 0, 0 };
	siginfo_t info;
	int count = 0;
	for (int index = 0; index < 2; index++)
		count += is_pending(numbers[index]);
	for (int index = 0; index < count; index++) {
		CHECK(sigtimedwait(&both, &info, &at_once) > 0);
		CHECK_EQ(info.si_code, SI_USER);
		CHECK_EQ(info.si_pid, sender);
	}
	CHECK_ERRNO(sigtimedwait(&both, &info, &at_once), EAGAIN);
	return count;
}

static void *finds(void *arg)
{
	for (int index = 0; index < 2; index++)
		CHECK(is_pending(numbers[index]));
	return arg;
}

/* Another thread finds them when it has failed. */
static void *replace(void *fails)
{
	char sender[16];
	snprintf(sender, sizeof sender, "%d", (int)getpid());
	if (fails == NULL)
		execl(own_path, own_path, sender, NULL);
	CHECK_ERRNO(execl("/proc/nonexistent", "nonexistent", NULL), ENOENT);
	join_thread(start_thread(finds, NULL));
	return fails;
}

static void *takes(void *arg)
{
	for (int index = 0; index < 2; index++) {
		int number;
		CHECK_EQ(sigwait(&both, &number), 0);
	}
	return arg;
}

static void *others(void *arg)
{
	set_value(&stage, 1);
	for (;;)
		sleep_ms(1000);
	return arg;
}

static int status_of(pid_t child)
{
	int status;
	CHECK(child > 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* In a process of its own. */
static void become(int way)
{
	static int fails;
	pid_t child;
	start_thread(others, NULL);
	await_value(&stage, 1);
	for (int index = 0; index < 2; index++)
		CHECK_EQ(kill(getpid(), numbers[index]), 0);
	switch (way) {
	case BY_MAIN:
		replace(&fails);
		replace(NULL);
		break;
	case BY_THREAD:
		join_thread(start_thread(replace, &fails));
		join_thread(start_thread(replace, NULL));
		break;
	case BY_KERNEL_THREAD:
		join_thread(start_on_own_stack(replace, &fails));
		join_thread(start_on_own_stack(replace, NULL));
		break;
	case BY_CHILD:
		child = fork();
		if (child == 0)
			replace(NULL);
		CHECK_EQ(status_of(child), 0);
		break;
	case BY_VFORK:
		child = vfork();
		if (child == 0) {
			execl(own_path, own_path, "0", NULL);
			_exit(100);
		}
		CHECK_EQ(status_of(child), 0);
		break;
	}
	/* The parent has them still. */
	join_thread(start_thread(takes, NULL));
	_exit(2);
}

static void fail(void)
{
	CHECK_ERRNO(execl("/proc/nonexistent", "nonexistent", NULL), ENOENT);
}

/* One of each, from there; and no more. */
static void take_from(pid_t sender)
{
	struct timespec at_once = { 0, 0 };
	siginfo_t info;
	for (int index = 0; index < 2; index++) {
		CHECK(sigtimedwait(&both, &info, &at_once) > 0);
		CHECK_EQ(info.si_pid, sender);
	}
	CHECK_ERRNO(sigtimedwait(&both, &info, &at_once), EAGAIN);
}

static void *takes_from(void *sender)
{
	take_from((pid_t)(intptr_t)sender);
	return NULL;
}

/* Its own are pending beside the process's, which another thread gets. */
static void *beside_own(void *arg)
{
	pid_t process = getpid(), child = fork();
	if (child == 0)
		_exit(kill(process, SIGPIPE) != 0 || kill(process, SIGXFSZ) != 0);
	CHECK_EQ(status_of(child), 0);
	long end = now_ms() + 20000;
	while (!is_pending(SIGPIPE) || !is_pending(SIGXFSZ)) {
		CHECK(now_ms() < end);
		sleep_ms(1);
	}
	for (int index = 0; index < 2; index++)
		CHECK_EQ(pthread_kill(pthread_self(), numbers[index]), 0);
	for (int times = 0; times < 2; times++)
		fail();
	join_thread(start_thread(takes_from, (void *)(intptr_t)child));
	take_from(process);
	return arg;
}

static void *fails_often(void *arg)
{
	add_value(&stage, 1);
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
		fail();
	return arg;
}

/* While others fail to become another program. */
static void *sends_and_takes(void *arg)
{
	await_value(&stage, 2);
	for (int round = 0; round < ROUNDS; round++) {
		for (int index = 0; index < 2; index++) {
			CHECK_EQ(kill(getpid(), numbers[index]), 0);
			CHECK_EQ(kill(getpid(), numbers[index]), 0);
			CHECK(is_pending(numbers[index]));
		}
		sched_yield();
		take_from(getpid());
		CHECK(!is_pending(SIGPIPE) && !is_pending(SIGXFSZ));
	}
	return arg;
}

static void meanwhile(void)
{
	for (int way = BY_MAIN; way <= BY_KERNEL_THREAD; way++) {
		stop = stage = 0;
		pthread_t thread = start_thread(fails_often, NULL);
		pthread_t kernel_thread = start_on_own_stack(fails_often, NULL);
		if (way == BY_MAIN)
			sends_and_takes(NULL);
		else if (way == BY_THREAD)
			join_thread(start_thread(sends_and_takes, NULL));
		else
			join_thread(start_on_own_stack(sends_and_takes, NULL));
		set_value(&stop, 1);
		join_thread(thread);
		join_thread(kernel_thread);
	}
}

int main(int count, char **arguments)
{
	sigemptyset(&both);
	sigaddset(&both, SIGPIPE);
	sigaddset(&both, SIGXFSZ);
	if (count > 1)
		return look((pid_t)atoi(arguments[1]));
	own_path = arguments[0];
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
	for (int way = 0; way < WAYS; way++) {
		pid_t child = fork();
		if (child == 0)
			become(way);
		CHECK_EQ(status_of(child), 2);
	}
	meanwhile();
	join_thread(start_thread(beside_own, NULL));
	join_thread(start_on_own_stack(beside_own, NULL));
	beside_own(NULL);
	return 0;
}
