/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * main can be cancelled like any thread; its cleanup handlers run.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/wait.h>

static void report(void *arg)
{
	(void)arg;
	_exit(9);
}

static void *cancels(void *arg)
{
	CHECK_EQ(pthread_cancel(*(pthread_t *)arg), 0);
	return NULL;
}

int main(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		pthread_t self = pthread_self();
		pthread_cleanup_push(report, NULL);
		start_thread(cancels, &self);
		sleep(100);
		pthread_cleanup_pop(0);
		_exit(1);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 9);
	return 0;
}
