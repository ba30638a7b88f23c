/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A process may fork before its first thread; parent and child then both use threads.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/wait.h>

static void *nothing(void *arg)
{
	sched_yield();
	return arg;
}

static void use_threads(void)
{
	pthread_t threads[20];
	for (intptr_t i = 0; i < 20; i++)
		threads[i] = start_thread(nothing, (void *)i);
	for (intptr_t i = 0; i < 20; i++)
		CHECK_EQ((intptr_t)join_thread(threads[i]), i);
}

int main(void)
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	use_threads();
	if (child == 0)
		_exit(3);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 3);
	return 0;
}
