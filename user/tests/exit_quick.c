/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * quick_exit, exit and _exit called by a thread beside others that wait and compute: the handlers
 * of the one that was called run, in the reverse of their order, in the thread that called it, and
 * the process ends with its status.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static int out;
static pthread_t caller;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int sink;

static void note(char what)
{
	/* A handler may lock, wait and write as anybody may. */
	pthread_mutex_lock(&lock);
	if (!pthread_equal(pthread_self(), caller))
		what = '!';
	CHECK_EQ(write(out, &what, 1), 1);
	pthread_mutex_unlock(&lock);
	usleep(1000);
}

static void quick_1(void) { note('1'); }
static void quick_2(void) { note('2'); }
static void usual_a(void) { note('a'); }
static void usual_b(void) { note('b'); }

static void *waits(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *computes(void *arg)
{
	for (;;)
		sink++;
	return arg;
}

static void *ends(void *how)
{
	caller = pthread_self();
	sleep_ms(5);
	switch ((long)how) {
	case 0: quick_exit(30);
	case 1: exit(31);
	default: _exit(32);
	}
}

static void child(long how)
{
	CHECK_EQ(at_quick_exit(quick_1), 0);
	CHECK_EQ(at_quick_exit(quick_2), 0);
	CHECK_EQ(atexit(usual_a), 0);
	CHECK_EQ(atexit(usual_b), 0);
	for (int i = 0; i < 4; i++)
		start_thread(i % 2 ? waits : computes, NULL);
	start_thread(ends, (void *)how);
	for (;;)
		pause();
}

int main(void)
{
	static const char *const want[] = { "21", "ba", "" };
	for (long how = 0; how < 3; how++) {
		int fds[2], status;
		char got[8] = "";
		CHECK_EQ(pipe(fds), 0);
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			close(fds[0]);
			out = fds[1];
			alarm(50);
			child(how);
		}
		close(fds[1]);
		for (size_t at = 0; at < sizeof(got) - 1; at++)
			if (read(fds[0], got + at, 1) != 1)
				break;
		close(fds[0]);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), 30 + how);
		CHECK_EQ(strcmp(got, want[how]), 0);
	}
	return 0;
}
