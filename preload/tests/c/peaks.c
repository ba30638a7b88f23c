/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Peaks are exact to the byte, and the reuse of a stack blurs none of them. Room for the descriptor
 * that they need is made while there is one thread. */
#define _GNU_SOURCE
#include "own_table.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

static size_t wanted;

/* Descriptors that the process has room for. */
static unsigned room(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	unsigned room = 0;

	CHECK(file);
	while (room == 0 && fgets(line, sizeof(line), file))
		(void)sscanf(line, "FDSize: %u", &room);
	fclose(file);
	return room;
}

static void *look(void *seen)
{
	*(unsigned *)seen = room();
	return NULL;
}

/* Whether it could be tested. */
static bool test_room(void)
{
	struct rlimit limit;
	unsigned seen = 0;
	pthread_t thread;

	CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur <= 1000)
		return false;
	CHECK_EQUAL(pthread_create(&thread, NULL, look, &seen), 0);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK(seen > 1000);
	return true;
}

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

	const bool has_room = test_room();

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
	if (!has_room)
		SKIP("RLIMIT_NOFILE permits no descriptor above 1000");
	return 0;
}
