/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread with a stack of the program's that leaves system() by a cancellation leaves no shell
 * behind, and others' calls ignore SIGINT and give it back as ever.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { STACK_BYTES = 1 << 20 };

static int started;

static void on_interrupt(int number)
{
	(void)number;
}

static int is_ignored(void)
{
	struct sigaction action;
	CHECK_EQ(sigaction(SIGINT, NULL, &action), 0);
	return action.sa_handler == SIG_IGN;
}

static void await_ignored(void)
{
	for (long end = now_ms() + 10000; !is_ignored(); sleep_ms(1))
		CHECK(now_ms() < end);
}

static void *runs(void *arg)
{
	set_value(&started, 1);
	system(arg);
	return NULL;
}

static pthread_t start(int has_own_stack, char *command)
{
	pthread_attr_t attributes;
	pthread_t thread;
	CHECK_EQ(pthread_attr_init(&attributes), 0);
	if (has_own_stack) {
		void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(stack != MAP_FAILED);
		CHECK_EQ(pthread_attr_setstack(&attributes, stack, STACK_BYTES), 0);
	}
	set_value(&started, 0);
	CHECK_EQ(pthread_create(&thread, &attributes, runs, command), 0);
	await_value(&started, 1);
	sleep_ms(100);
	await_ignored();
	return thread;
}

static void is_as_before(void)
{
	CHECK(!is_ignored());
	CHECK_ERRNO(waitpid(-1, NULL, 0), ECHILD);
}

static void cancelled(void)
{
	pthread_t thread = start(1, "sleep 100");
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	is_as_before();
	/* Ignored again, until the shell finds the end of what it reads. */
	int ends[2];
	char command[64];
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(fcntl(ends[1], F_SETFD, FD_CLOEXEC), 0);
	snprintf(command, sizeof command, "read line </dev/fd/%d", ends[0]);
	thread = start(0, command);
	close(ends[1]);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	close(ends[0]);
	is_as_before();
}

static void *body(void *arg)
{
	cancelled();
	return arg;
}

int main(void)
{
	CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, body, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return 0;
}
