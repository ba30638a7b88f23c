/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What is pending and blocked as the first thread is made stays pending: SIGCHLD, whose default is
 * to be ignored, and a signal that is ignored. With a kernel thread first, and without.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 1 << 18 };

static void *does_nothing(void *arg)
{
	return arg;
}

static void on_own_stack(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(stack != MAP_FAILED);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstack(&attr, stack, STACK), 0);
	CHECK_EQ(pthread_create(&thread, &attr, does_nothing, NULL), 0);
	join_thread(thread);
}

static void stay(int kernel_first)
{
	const struct timespec soon = { 5, 0 };
	sigset_t set;
	pid_t child;

	CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	child = fork();
	if (child == 0)
		_exit(0);
	CHECK_EQ(waitpid(child, NULL, 0), child);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	if (kernel_first)
		on_own_stack();
	join_thread(start_thread(does_nothing, NULL));
	CHECK_EQ(sigtimedwait(&set, NULL, &soon), SIGUSR1);
	CHECK_EQ(sigtimedwait(&set, NULL, &soon), SIGCHLD);
}

int main(void)
{
	for (int kernel_first = 0; kernel_first < 2; kernel_first++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			stay(kernel_first);
			_exit(0);
		}
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK_EQ(status, 0);
	}
	return 0;
}
