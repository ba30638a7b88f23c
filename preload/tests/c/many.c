/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Ten thousand short threads, a hundred at a time, and all of them are counted. */
#define _GNU_SOURCE
#include "own_table.h"
#include <pthread.h>

#define AT_ONCE 100
#define ROUNDS 100

static void *start(void *argument) { return argument; }

int main(void)
{
	pthread_t threads[AT_ONCE];
	const struct heddle_use *use;
	const char *table;

	for (int round = 0; round < ROUNDS; round++) {
		for (long i = 0; i < AT_ONCE; i++)
			CHECK_EQUAL(pthread_create(&threads[i], NULL, start, (void *)i), 0);
		for (long i = 0; i < AT_ONCE; i++) {
			void *result;

			CHECK_EQUAL(pthread_join(threads[i], &result), 0);
			CHECK_EQUAL((long)result, i);
		}
	}
	table = table_map();
	CHECK(table);
	CHECK_EQUAL(table_header(table)->uses_used, 2);
	use = table_use(table, 1);
	CHECK_EQUAL(use->created, AT_ONCE * ROUNDS);
	CHECK_EQUAL(use->ended, AT_ONCE * ROUNDS);
	CHECK_EQUAL(use->failed, 0);
	CHECK_EQUAL(use->reserved, 0);
	CHECK(use->reserved_peak >= use->stack_given);
	/* Slots are used again. */
	CHECK(table_header(table)->high_water <= 2 * AT_ONCE);
	return 0;
}
