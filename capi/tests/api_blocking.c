/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * heddle_blocking runs a call that sleeps in the kernel while other threads of the worker go on.
 */
#define _GNU_SOURCE
#include "check.h"

#ifdef HEDDLE_PTHREAD_H
static int ticks, done;

static void *busy(void *arg)
{
	/* Keeps its kernel thread for itself: no other thread may run on it meanwhile. */
	for (long end = now_ms() + 40000; now_ms() < end;)
		if (__atomic_load_n(&ticks, __ATOMIC_SEQ_CST) >= 3)
			break;
	return arg;
}

static void *calls(void *arg)
{
	void *result = heddle_blocking(busy, arg);
	set_value(&done, 1);
	return result;
}

static void *ticking(void *arg)
{
	while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST)) {
		add_value(&ticks, 1);
		sleep_ms(1);
	}
	return arg;
}
#endif

int main(void)
{
#ifndef HEDDLE_PTHREAD_H
	SKIP("heddle_blocking is heddle's");
#else
	struct heddle_config config = { .size_bytes = sizeof config, .workers = 1 };
	CHECK_EQ(heddle_configure(&config), 0);
	pthread_t caller = start_thread(calls, &ticks), ticker = start_thread(ticking, NULL);
	CHECK(join_thread(caller) == &ticks);
	join_thread(ticker);
	CHECK(ticks >= 3);
	return 0;
#endif
}
