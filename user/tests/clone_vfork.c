/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread starts programs by clone(), in a child that has its memory and a stack of its own: the
 * program has the thread's mask, and where there is none the child goes on. One that has
 * thread-local storage in which there is nothing ends, as Chromium's sandbox has one do.
 */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <sys/wait.h>

enum { STARTS = 20, NO_PROGRAM = 9, STATUS = 7 };

static _Alignas(16) char stack[64 << 10];

/* SIGUSR2 is blocked, so the shell ends by itself. */
static int child(void *path)
{
	char *words[] = {"sh", "-c", "kill -USR2 $$; exit 7", NULL};
	execv(path, words);
	return NO_PROGRAM;
}

static int start(const char *path)
{
	int status;
	pid_t pid = clone(child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
			  (void *)(uintptr_t)path);
	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int child_without_storage(void *unused)
{
	(void)unused;
	_exit(STATUS);
}

static void *end_without_storage(void *arg)
{
	static _Alignas(64) char storage[16 << 10];
	const int flags = CLONE_VM | CLONE_VFORK | CLONE_FS | CLONE_SETTLS | SIGCHLD;
	int status;
	pid_t pid = clone(child_without_storage, stack + sizeof(stack), flags, NULL, NULL,
			  storage + sizeof(storage) / 2, NULL);
	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), STATUS);
	return arg;
}

static void *start_all(void *arg)
{
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &mask, NULL), 0);
	for (int i = 0; i < STARTS; i++) {
		CHECK_EQ(start("/nowhere/sh"), NO_PROGRAM);
		CHECK_EQ(start("/bin/sh"), STATUS);
		usleep(100);
	}
	return arg;
}

int main(void)
{
	alarm(20);
	end_without_storage(NULL);
	join_thread(start_thread(end_without_storage, NULL));
	join_thread(start_thread(start_all, NULL));
	return 0;
}
