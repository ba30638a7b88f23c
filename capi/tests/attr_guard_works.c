/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Running off the stack kills the process by SIGSEGV instead of corrupting a neighbour.
 */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static long dig(long depth)
{
	volatile char frame[1024];
	frame[0] = (char)depth;
	return depth == 0 ? frame[0] : dig(depth - 1) + frame[0];
}

static void *overflows(void *arg)
{
	return (void *)dig((long)(intptr_t)arg);
}

int main(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct rlimit none = { 0, 0 };
		pthread_t thread;
		pthread_attr_t attr;
		setrlimit(RLIMIT_CORE, &none);
		if (freopen("/dev/null", "w", stderr) == NULL)
			_exit(2);
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, 65536);
		pthread_create(&thread, &attr, overflows, (void *)100000);
		pthread_join(thread, NULL);
		_exit(0);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGSEGV);
	return 0;
}
