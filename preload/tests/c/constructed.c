/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Threads before main(), and threads of a library that comes and goes. */
#define _GNU_SOURCE
#include "own_table.h"
#include <dlfcn.h>
#include <pthread.h>

static pthread_t early;

static void *nothing(void *argument) { return argument; }

__attribute__((constructor(101))) static void constructor(void)
{
	CHECK_EQUAL(pthread_create(&early, NULL, nothing, (void *)7), 0);
}

int main(int count, char **arguments)
{
	const char *table;
	void *result;

	CHECK_EQUAL(pthread_join(early, &result), 0);
	CHECK(result == (void *)7);
	table = table_map();
	CHECK(table);
	CHECK_EQUAL(table_use(table, 1)->ended, 1);
	for (int round = 0; count > 1 && round < 3; round++) {
		void *library = dlopen(arguments[1], RTLD_NOW);
		int (*run)(void) = library ? (int (*)(void))dlsym(library, "run") : NULL;

		CHECK(run);
		CHECK_EQUAL(run(), 0);
		CHECK_EQUAL(dlclose(library), 0);
	}
	/* The library's kind is one, however often it was loaded. */
	CHECK_EQUAL(table_header(table)->uses_used, count > 1 ? 3 : 2);
	if (count > 1)
		CHECK_EQUAL(table_use(table, 2)->created, 3);
	return 0;
}
