/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What sizes threads get: prints "default N", "explicit N", "memory N" as the threads themselves
 * see them; guards are checked here. */
#define _GNU_SOURCE
#include "own_table.h"
#include <pthread.h>

static size_t size, guard;

static void look(void)
{
	pthread_attr_t attributes;
	void *low;

	CHECK_EQUAL(pthread_getattr_np(pthread_self(), &attributes), 0);
	CHECK_EQUAL(pthread_attr_getstack(&attributes, &low, &size), 0);
	CHECK_EQUAL(pthread_attr_getguardsize(&attributes, &guard), 0);
	pthread_attr_destroy(&attributes);
	CHECK((char *)low < (char *)__builtin_frame_address(0));
}

static void *by_default(void *argument)
{
	look();
	return argument;
}

static void *explicitly(void *argument)
{
	look();
	return argument;
}

static void *on_memory(void *argument)
{
	look();
	return argument;
}

static void run(const char *what, void *(*start)(void *), const pthread_attr_t *attributes)
{
	pthread_t thread;

	CHECK_EQUAL(pthread_create(&thread, attributes, start, NULL), 0);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	printf("%s %zu\n", what, size);
}

int main(void)
{
	static char memory[1 << 20] __attribute__((aligned(65536)));
	pthread_attr_t attributes, before;

	run("default", by_default, NULL);
	CHECK(guard >= 4096);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 3 << 20);
	before = attributes;
	run("explicit", explicitly, &attributes);
	/* The program's attribute is the program's. */
	CHECK(!memcmp(&before, &attributes, sizeof(before)));
	CHECK(guard >= 4096);
	pthread_attr_setstack(&attributes, memory, sizeof(memory));
	run("memory", on_memory, &attributes);
	/* musl counts without what it keeps there for itself. */
	CHECK(size <= sizeof(memory) && size > sizeof(memory) - 16384);
	return 0;
}
