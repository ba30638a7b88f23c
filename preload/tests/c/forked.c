/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A forked child has a table of its own as soon as it needs one, and never touches its parent's. */
#define _GNU_SOURCE
#include "own_table.h"
#include <pthread.h>
#include <signal.h>

static void *nothing(void *argument) { return argument; }

static void a_thread(void)
{
	pthread_t thread;

	CHECK_EQUAL(pthread_create(&thread, NULL, nothing, NULL), 0);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

static void in_child(void)
{
	const char *table;

	CHECK(!table_map());
	/* A name for itself, before it has a table, goes nowhere: not to the parent's record. */
	pthread_setname_np(pthread_self(), "child");
	a_thread();
	table = table_map();
	CHECK(table);
	CHECK_EQUAL(table_header(table)->pid, syscall(SYS_getpid));
	CHECK_EQUAL(table_header(table)->uses_used, 2);
	CHECK_EQUAL(table_use(table, 1)->created, 1);
	CHECK_EQUAL(table_record(table, 0)->tid, syscall(SYS_getpid));
	exit(0);
}

static void *forks(void *argument)
{
	pid_t child = fork();

	if (child == 0)
		in_child();
	wait_for_child(child);
	return argument;
}

int main(void)
{
	const char *table;
	pthread_t thread;
	pid_t child;

	a_thread();
	table = table_map();
	CHECK(table);
	child = fork();
	if (child == 0)
		in_child();
	wait_for_child(child);
	CHECK_EQUAL(pthread_create(&thread, NULL, forks, NULL), 0);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	/* Behind libc's back: no fork handler runs. */
	child = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
	if (child == 0) {
		CHECK(!table_map());
		_exit(0);
	}
	wait_for_child(child);
	child = vfork();
	if (child == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	wait_for_child(child);
	CHECK(!(table_header(table)->flags & HEDDLE_TABLE_ENDED));
	CHECK_EQUAL(table_header(table)->pid, getpid());
	CHECK_EQUAL(table_use(table, 1)->created, 1);
	CHECK_EQUAL(table_record(table, 0)->name, 0);
	a_thread();
	CHECK_EQUAL(table_use(table, 1)->created, 2);
	return 0;
}
