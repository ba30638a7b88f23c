/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Peaks are exact to the byte, and the reuse of a stack blurs none of them. */
#define _GNU_SOURCE
#include "own_table.h"
#include <pthread.h>

static size_t wanted;

static void *start(void *depth)
{
	/* The caller's stack pointer at the call: what peaks count from. */
	const uintptr_t entry = (uintptr_t)__builtin_dwarf_cfa();

	wanted = entry - use_stack((size_t)depth);
	return NULL;
}

int main(void)
{
	/* Small ones after large ones: they get the same stack. */
	static const size_t depths[] = {3000,  100000, 3000, 5000000, 2500, 16384, 20480, 24576,
					28672, 2500,   4096, 8192,    2500, 1000000, 2600};
	const char *table = NULL;
	pthread_attr_t attributes;
	pthread_t thread;

	/* musl's own size would be too small. */
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 8 << 20);

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
			CHECK_EQUAL(pthread_create(&thread, &attributes, start, (void *)depths[i]), 0);
			CHECK_EQUAL(pthread_join(thread, NULL), 0);
			if (!table)
				table = table_map();
			CHECK(table);
			/* One after the other: always the first slot after the main thread's. */
			CHECK_EQUAL(table_record(table, 1)->stack_peak, wanted);
			CHECK(table_record(table, 1)->stack_resident >= wanted);
		}
	}
	CHECK_EQUAL(table_header(table)->high_water, 2);
	return 0;
}
