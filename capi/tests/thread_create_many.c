/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thousand threads exist at once, each with its own argument and stack.
 */
#define _GNU_SOURCE
#include "check.h"

enum { COUNT = 1000 };
static sem_t gate;
static int arrived;

static void *wait_at_gate(void *arg)
{
	volatile char local[512];
	memset((char *)local, (int)(intptr_t)arg, sizeof local);
	add_value(&arrived, 1);
	CHECK_EQ(sem_wait(&gate), 0);
	for (size_t i = 0; i < sizeof local; i++)
		CHECK_EQ(local[i], (char)(intptr_t)arg);
	return arg;
}

int main(void)
{
	static pthread_t threads[COUNT];
	pthread_attr_t attr;
	CHECK_EQ(sem_init(&gate, 0, 0), 0);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstacksize(&attr, 65536), 0);
	for (intptr_t i = 0; i < COUNT; i++) {
		int error = pthread_create(&threads[i], &attr, wait_at_gate, (void *)i);
		if (error == EAGAIN && !ON_HEDDLE)
			SKIP("the C library cannot create 1000 threads here");
		CHECK_EQ(error, 0);
	}
	await_value(&arrived, COUNT);
	for (int i = 0; i < COUNT; i++)
		CHECK_EQ(sem_post(&gate), 0);
	for (intptr_t i = 0; i < COUNT; i++)
		CHECK_EQ((intptr_t)join_thread(threads[i]), i);
	return 0;
}
