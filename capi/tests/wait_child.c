/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Waiting for a child parks the thread and gives its status; without children, ECHILD.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* The child goes on for so long, and then until it may end, but not for ever. */
static pid_t fork_child(int status, int ms, const volatile int *may_end)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		/* Only calls that a forked child of a threaded process may make. */
		long now = now_ms(), end = now + ms, last = now + 20000;
		while (now < end || (may_end && !*may_end && now < last))
			now = now_ms();
		_exit(status);
	}
	return child;
}

static void *waits(void *arg)
{
	int status;
	struct rusage usage;
	volatile int *may_end = mmap(NULL, sizeof(*may_end), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(may_end != MAP_FAILED);
	pid_t child = fork_child(3, 20, may_end);
	CHECK_EQ(waitpid(child, &status, WNOHANG), 0);
	*may_end = 1;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	child = fork_child(4, 5, NULL);
	CHECK_EQ(wait(&status), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
	child = fork_child(5, 1, NULL);
	CHECK_EQ(wait4(child, &status, 0, &usage), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
	CHECK_ERRNO(waitpid(child, &status, 0), ECHILD);
	CHECK_ERRNO(wait(&status), ECHILD);
	CHECK_ERRNO(waitpid(child, &status, 0x7f000000), EINVAL);
	return arg;
}

int main(void)
{
	waits(NULL);
	join_thread(start_thread(waits, NULL));
	return 0;
}
