/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Fifty threads poll different descriptors at once, each with its own end.
 */
#define _GNU_SOURCE
#include "check.h"

#include <poll.h>

enum { COUNT = 50 };
static int ends[COUNT][2];
static int woken;

static void *polls(void *arg)
{
	struct pollfd wanted = { ends[(intptr_t)arg][0], POLLIN, 0 };
	CHECK_EQ(poll(&wanted, 1, (intptr_t)arg % 2 ? -1 : 40000), 1);
	add_value(&woken, 1);
	return NULL;
}

int main(void)
{
	pthread_t threads[COUNT];
	for (intptr_t i = 0; i < COUNT; i++) {
		CHECK_EQ(pipe(ends[i]), 0);
		threads[i] = start_thread(polls, (void *)i);
	}
	sleep_ms(5);
	CHECK_EQ(__atomic_load_n(&woken, __ATOMIC_SEQ_CST), 0);
	for (int i = COUNT - 1; i >= 0; i--) {
		CHECK_EQ(write(ends[i][1], "x", 1), 1);
		join_thread(threads[i]);
		CHECK_EQ(__atomic_load_n(&woken, __ATOMIC_SEQ_CST), COUNT - i);
	}
	return 0;
}
