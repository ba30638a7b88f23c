/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Thread-local variables of a program may be large: each thread has its own, which begin with their
 * values, and what is left of its stack, be that the usual one or hardly larger than they are.
 */
#include "check.h"

#define THREADS 8
#define VALUES (1 << 17)

static _Thread_local long values[VALUES];
static _Thread_local long begun[VALUES] = { [VALUES - 1] = 5 };

static void *fill(void *place)
{
	long number = (long)place, sum = begun[VALUES - 1];
	volatile char on_stack[256 << 10];

	for (size_t i = 0; i < sizeof on_stack; i += 4096)
		on_stack[i] = (char)number;
	for (size_t i = 0; i < VALUES; i++) {
		CHECK_EQ(values[i], 0);
		values[i] = number;
	}
	sched_yield();
	for (size_t i = 0; i < VALUES; i++)
		sum += values[i] + (i + 1 < VALUES ? begun[i] : 0);
	for (size_t i = 0; i < sizeof on_stack; i += 4096)
		CHECK_EQ(on_stack[i], (char)number);
	return (void *)sum;
}

int main(void)
{
	pthread_attr_t attr;
	pthread_t threads[THREADS];
	void *sum;

	CHECK_EQ(pthread_attr_init(&attr), 0);
	for (int round = 0; round < 3; round++) {
		for (long i = 0; i < THREADS; i++)
			CHECK_EQ(pthread_create(&threads[i], &attr, fill, (void *)(i + 1)), 0);
		for (long i = 0; i < THREADS; i++) {
			CHECK_EQ(pthread_join(threads[i], &sum), 0);
			CHECK_EQ((long)sum, (i + 1) * VALUES + 5);
		}
		CHECK_EQ(pthread_attr_setstacksize(&attr, (2 * VALUES * sizeof(long)) + (512 << 10)), 0);
	}
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	return 0;
}
