/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Functions within others, which are called through instructions on the caller's stack: in threads
 * of several stack sizes, and on the main thread.
 */
#include "check.h"

#ifdef __clang__
int main(void)
{
	printf("skip: this compiler knows no functions within others\n");
	return 0;
}
#else
static void for_each(const int *numbers, int count, void (*act)(int))
{
	for (int i = 0; i < count; i++)
		act(numbers[i]);
}

static void *adds(void *arg)
{
	static const int numbers[] = { 1, 2, 3, 4 };
	int sum = 0;
	void add(int number)
	{
		sum += number;
		sched_yield();
	}
	for (int round = 0; round < 100; round++) {
		for_each(numbers, 4, add);
		CHECK_EQ(sum, 10 * (round + 1));
	}
	return arg;
}

int main(void)
{
	static const size_t sizes[] = { 64 << 10, 256 << 10, 1 << 20, 8 << 20 };
	enum { THREADS = 40 };
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++) {
		pthread_attr_t attributes;
		CHECK_EQ(pthread_attr_init(&attributes), 0);
		CHECK_EQ(pthread_attr_setstacksize(&attributes, sizes[i % 4]), 0);
		CHECK_EQ(pthread_create(&threads[i], &attributes, adds, NULL), 0);
	}
	adds(NULL);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	return 0;
}
#endif
