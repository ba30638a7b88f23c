/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Prints the nanoseconds of a create and join: the least of many rounds. */
#define _GNU_SOURCE
#include "own_table.h"
#include <pthread.h>
#include <time.h>

static void *nothing(void *argument) { return argument; }

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(int count, char **arguments)
{
	const int rounds = count > 1 ? atoi(arguments[1]) : 50, each = 200;
	uint64_t best = UINT64_MAX;
	pthread_t thread;

	for (int round = 0; round < rounds; round++) {
		const uint64_t start = now();

		for (int i = 0; i < each; i++) {
			CHECK_EQUAL(pthread_create(&thread, NULL, nothing, NULL), 0);
			CHECK_EQUAL(pthread_join(thread, NULL), 0);
		}
		const uint64_t taken = (now() - start) / (uint64_t)each;

		best = taken < best ? taken : best;
	}
	printf("%llu\n", (unsigned long long)best);
	return 0;
}
