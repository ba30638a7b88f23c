/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What dl_iterate_phdr calls holds a lock of the loader's, and waits meanwhile for threads: for the
 * program's first one, which it makes itself, and for one that another thread makes and whose start
 * function was not seen before; and for a child that makes threads.
 */
#define _GNU_SOURCE
#include "check.h"
#include <link.h>
#include <sys/wait.h>

static int is_there, is_done;

static void *first(void *arg)
{
	return arg;
}

static void *second(void *arg)
{
	return arg;
}

static void *of_child(void *arg)
{
	return arg;
}

static int makes(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	(void)info, (void)bytes;
	CHECK(join_thread(start_thread(first, arg)) == arg);
	return 1;
}

static int waits(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	(void)info, (void)bytes, (void)arg;
	set_value(&is_there, 1);
	await_value(&is_done, 1);
	return 1;
}

static void *iterates(void *arg)
{
	CHECK_EQ(dl_iterate_phdr(waits, NULL), 1);
	return arg;
}

static void fork_and_make(void)
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		join_thread(start_thread(of_child, NULL));
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

int main(void)
{
	CHECK_EQ(dl_iterate_phdr(makes, &is_there), 1);
	pthread_t holder = start_thread(iterates, NULL);
	await_value(&is_there, 1);
	join_thread(start_thread(second, NULL));
	fork_and_make();
	set_value(&is_done, 1);
	join_thread(holder);
	return 0;
}
