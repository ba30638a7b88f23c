/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that yields lets the others of its worker run.
 */
#define _GNU_SOURCE
#include "check.h"

static int turn;

static void *take_turns(void *arg)
{
	int mine = (int)(intptr_t)arg;
	for (int i = 0; i < 200; i++) {
		while (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) % 2 != mine)
			CHECK_EQ(sched_yield(), 0);
		add_value(&turn, 1);
	}
	return NULL;
}

int main(void)
{
	pthread_t a = start_thread(take_turns, (void *)0);
	pthread_t b = start_thread(take_turns, (void *)1);
	join_thread(a);
	join_thread(b);
	CHECK_EQ(turn, 400);
	return 0;
}
