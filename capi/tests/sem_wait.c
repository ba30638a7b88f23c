/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Every post lets exactly one waiter through, from any thread to any other.
 */
#define _GNU_SOURCE
#include "check.h"

static sem_t items;
static int through;

static void *waits(void *arg)
{
	CHECK_EQ(sem_wait(&items), 0);
	add_value(&through, 1);
	return arg;
}

int main(void)
{
	pthread_t threads[10];
	int value = -1;
	CHECK_EQ(sem_init(&items, 0, 0), 0);
	for (int i = 0; i < 10; i++)
		threads[i] = start_thread(waits, NULL);
	sleep_ms(5);
	CHECK_EQ(__atomic_load_n(&through, __ATOMIC_SEQ_CST), 0);
	CHECK_EQ(sem_getvalue(&items, &value), 0);
	CHECK_EQ(value, 0);
	for (int i = 1; i <= 10; i++) {
		CHECK_EQ(sem_post(&items), 0);
		await_value(&through, i);
		sched_yield();
		CHECK_EQ(__atomic_load_n(&through, __ATOMIC_SEQ_CST), i);
	}
	for (int i = 0; i < 10; i++)
		join_thread(threads[i]);
	CHECK_ERRNO(sem_trywait(&items), EAGAIN);
	return 0;
}
