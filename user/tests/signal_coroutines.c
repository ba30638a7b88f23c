/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that do nothing but switch between two contexts, one of them with a stack of its own, are
 * stopped by a signal again and again, as collectors do it, whichever they are in.
 */
#define _GNU_SOURCE
#include "stops.h"
#include <ucontext.h>

enum { THREADS = 3, STOPS = 40, STACK_BYTES = 64 << 10 };

static int stop;
static _Thread_local ucontext_t outside, inside;
static _Thread_local long turns;

static void coroutine(void)
{
	for (;;) {
		turns++;
		CHECK_EQ(swapcontext(&inside, &outside), 0);
	}
}

static void *switch_over(void *arg)
{
	void *stack = malloc(STACK_BYTES);
	CHECK(stack);
	CHECK_EQ(getcontext(&inside), 0);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = STACK_BYTES;
	makecontext(&inside, coroutine, 0);
	for (long i = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		CHECK_EQ(swapcontext(&outside, &inside), 0);
		CHECK_EQ(turns, i);
	}
	free(stack);
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];
	prepare_stops();
	CHECK_EQ(sem_init(&handled, 0, 0), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, switch_over, NULL), 0);
	stop_them(threads, THREADS, STOPS);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	return 0;
}
