/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread holds the loader's lock while it waits, unseen, for what the last of all threads does.
 * Those in between wait for that lock, where no library sees it: in dlopen, in pthread_exit, which
 * looks for the tables of unwinding, and in exceptions' way, dl_iterate_phdr. All of them need a
 * kernel thread each, or have to be left there, and to make one takes a lock of the loader's, too.
 */
#define _GNU_SOURCE
#include "check.h"
#include "unseen.h"
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#define ROUNDS 2
#define EACH 6

static int is_held, waiting, end[2];

static int blocks(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	char byte;
	(void)info, (void)bytes;
	set_value(&is_held, 1);
	CHECK_EQ(read_unseen(end[0], &byte, 1), 1);
	set_value(&is_held, 0);
	*(int *)arg = 1;
	return 1;
}

static void *holds(void *arg)
{
	int was_called = 0;
	CHECK_EQ(dl_iterate_phdr(blocks, &was_called), 1);
	CHECK(was_called);
	return arg;
}

static void wait_for_holder(void)
{
	while (!value_of(&is_held))
		sched_yield();
	__atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
}

static void *opens(void *arg)
{
	wait_for_holder();
	void *library = dlopen("libresolv.so.2", RTLD_NOW);
	CHECK(library);
	CHECK_EQ(dlclose(library), 0);
	return arg;
}

static int sees(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	(void)info, (void)bytes, (void)arg;
	return 1;
}

static void *iterates(void *arg)
{
	wait_for_holder();
	CHECK_EQ(dl_iterate_phdr(sees, NULL), 1);
	return arg;
}

static void *exits(void *arg)
{
	wait_for_holder();
	pthread_exit(arg);
}

static void *ends(void *arg)
{
	while (value_of(&waiting) < 3 * EACH)
		sched_yield();
	CHECK_EQ(write(end[1], "x", 1), 1);
	return arg;
}

int main(void)
{
	void *(*const others[])(void *) = { opens, iterates, exits };
	CHECK_EQ(pipe(end), 0);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t threads[3 * EACH];
		set_value(&waiting, 0);
		pthread_t last = start_thread(ends, NULL);
		for (int i = 0; i < 3 * EACH; i++)
			threads[i] = start_thread(others[i % 3], NULL);
		pthread_t holder = start_thread(holds, NULL);
		for (int i = 0; i < 3 * EACH; i++)
			join_thread(threads[i]);
		join_thread(last);
		join_thread(holder);
	}
	return 0;
}
