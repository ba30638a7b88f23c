/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Thread-local variables lie at multiples of what they ask for, up to a page, in each of many
 * threads at a time and in those that come after them; they have their first values there, and
 * what a thread writes is its own. Threads' stacks stay as large as was asked for.
 */
#include <stdalign.h>

#include "check.h"

enum { THREADS = 48, TURNS = 3, STACK_BYTES = 64 << 10 };

static _Thread_local alignas(128) int line_pair = 7;
static _Thread_local alignas(1024) char zeros[1024];
static _Thread_local alignas(4096) long page[8] = {1, 2, 3};
static pthread_barrier_t all;

/* The compiler knows what the address must be: it is not to answer for us. */
static int is_multiple(const volatile void *address, uintptr_t of)
{
	uintptr_t number = (uintptr_t)address;

	__asm__ volatile("" : "+r"(number));
	return number % of == 0;
}

static void *look(void *argument)
{
	int number = (int)(intptr_t)argument;
	volatile char used[STACK_BYTES / 2];

	CHECK(is_multiple(&line_pair, 128));
	CHECK(is_multiple(zeros, 1024));
	CHECK(is_multiple(page, 4096));
	CHECK_EQ(line_pair, 7);
	CHECK_EQ(page[2], 3);
	for (size_t i = 0; i < sizeof(zeros); i++)
		CHECK_EQ(zeros[i], 0);
	line_pair = number;
	page[7] = number;
	memset(zeros, number + 1, sizeof(zeros));
	for (size_t i = 0; i < sizeof(used); i += 512)
		used[i] = (char)number;
	pthread_barrier_wait(&all);
	CHECK_EQ(line_pair, number);
	CHECK_EQ(page[7], number);
	for (size_t i = 0; i < sizeof(zeros); i++)
		CHECK_EQ(zeros[i], number + 1);
	CHECK_EQ(used[512], (char)number);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	pthread_attr_t attr;

	pthread_barrier_init(&all, NULL, THREADS);
	pthread_attr_init(&attr);
	CHECK_EQ(pthread_attr_setstacksize(&attr, STACK_BYTES), 0);
	for (int turn = 0; turn < TURNS; turn++) {
		for (intptr_t i = 0; i < THREADS; i++)
			CHECK_EQ(pthread_create(&threads[i], &attr, look, (void *)i), 0);
		for (int i = 0; i < THREADS; i++)
			CHECK_EQ(pthread_join(threads[i], NULL), 0);
	}
	CHECK_EQ(line_pair, 7);
	return 0;
}
