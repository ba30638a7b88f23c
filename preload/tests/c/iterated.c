/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Threads of a new kind are created while another one has the loader's lock, which waits for them,
 * and in a child that is forked meanwhile. Their places are found all the same. */
#define _GNU_SOURCE
#include "own_table.h"
#include <link.h>
#include <pthread.h>
#include <semaphore.h>

static sem_t there, done;

static void *begins(void *argument) { return argument; }
static void *comes_meanwhile(void *argument) { return argument; }

static int waits(struct dl_phdr_info *info, size_t bytes, void *argument)
{
	(void)info;
	(void)bytes;
	(void)argument;
	CHECK_EQUAL(sem_post(&there), 0);
	CHECK_EQUAL(sem_wait(&done), 0);
	return 1;
}

static void *iterates(void *argument)
{
	CHECK_EQUAL(dl_iterate_phdr(waits, NULL), 1);
	return argument;
}

static void a_thread(void *(*start)(void *))
{
	pthread_t thread;

	CHECK_EQUAL(pthread_create(&thread, NULL, start, NULL), 0);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

/* A text is "BUILD-ID+OFFSET PATH". */
static void check_is_of_program(const char *table, uint32_t use)
{
	char program[1025];
	const char *text;
	size_t id;

	strcpy(program, table_text(table, table_use(table, 0)->start));
	text = table_text(table, table_use(table, use)->start);
	id = strcspn(text, "+");
	CHECK(id > 1 && id == strcspn(program, "+") && strncmp(text, program, id) == 0);
	CHECK(strcmp(text + strcspn(text, " "), program + strcspn(program, " ")) == 0);
}

int main(void)
{
	const char *table;
	pthread_t holder;
	pid_t child;

#ifndef __GLIBC__
	SKIP("this loader tells nothing without its lock");
#else
	if (!__GLIBC_PREREQ(2, 35))
		SKIP("this loader tells nothing without its lock");
#endif
	CHECK_EQUAL(sem_init(&there, 0, 0), 0);
	CHECK_EQUAL(sem_init(&done, 0, 0), 0);
	a_thread(begins);
	CHECK_EQUAL(pthread_create(&holder, NULL, iterates, NULL), 0);
	CHECK_EQUAL(sem_wait(&there), 0);
	a_thread(comes_meanwhile);
	child = fork();
	if (child == 0) {
		a_thread(begins);
		a_thread(comes_meanwhile);
		table = table_map();
		CHECK(table);
		check_is_of_program(table, 1);
		check_is_of_program(table, 2);
		exit(0);
	}
	wait_for_child(child);
	CHECK_EQUAL(sem_post(&done), 0);
	CHECK_EQUAL(pthread_join(holder, NULL), 0);
	table = table_map();
	CHECK(table);
	CHECK_EQUAL(table_header(table)->uses_used, 4);
	for (uint32_t use = 1; use < 4; use++)
		check_is_of_program(table, use);
	return 0;
}
