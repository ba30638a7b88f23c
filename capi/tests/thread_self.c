/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * self is the id that create stored, the same all the thread's life, and different for each
 * thread.
 */
#define _GNU_SOURCE
#include "check.h"

enum { COUNT = 32 };
static pthread_t seen[COUNT];
static int arrived, leave;

static void *look(void *arg)
{
	intptr_t i = (intptr_t)arg;
	seen[i] = pthread_self();
	add_value(&arrived, 1);
	while (!__atomic_load_n(&leave, __ATOMIC_SEQ_CST))
		sched_yield();
	CHECK(pthread_equal(seen[i], pthread_self()));
	return NULL;
}

int main(void)
{
	pthread_t threads[COUNT];
	pthread_t self = pthread_self();
	for (intptr_t i = 0; i < COUNT; i++)
		threads[i] = start_thread(look, (void *)i);
	await_value(&arrived, COUNT);
	for (int i = 0; i < COUNT; i++) {
		CHECK(pthread_equal(threads[i], seen[i]));
		CHECK(!pthread_equal(threads[i], self));
		for (int j = 0; j < i; j++)
			CHECK(!pthread_equal(threads[i], threads[j]));
	}
	set_value(&leave, 1);
	for (int i = 0; i < COUNT; i++)
		join_thread(threads[i]);
	CHECK(pthread_equal(self, pthread_self()));
	return 0;
}
