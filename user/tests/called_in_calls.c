/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that does nothing but make calls takes its signals soon, whatever it is in when they
 * come.
 */
#define _GNU_SOURCE
#include "busy_calls.h"
#include <signal.h>

enum { SIGNALS = 60, TRIES = 5, PATIENCE_S = 30 };
/* As in computing_in_calls. */
#define BESIDES 0.3

static int end, came;

static void on_signal(int signal)
{
	(void)signal;
	__atomic_add_fetch(&came, 1, __ATOMIC_SEQ_CST);
}

static void *computes(void *call)
{
	void (*const make)(void) = *(void (*const *)(void))call;
	while (!__atomic_load_n(&end, __ATOMIC_RELAXED))
		make();
	return NULL;
}

/* How long a thread that makes this call takes to take signals one after the other. */
static double taken_by(void (*const *call)(void), double seconds)
{
	pthread_t thread;
	__atomic_store_n(&end, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&came, 0, __ATOMIC_SEQ_CST);
	CHECK_EQ(pthread_create(&thread, NULL, computes, (void *)(uintptr_t)call), 0);
	sleep_ms(5);
	const double begin = now();
	for (int i = 0; i < SIGNALS && now() < begin + seconds; i++) {
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		while (__atomic_load_n(&came, __ATOMIC_SEQ_CST) == i && now() < begin + seconds)
			sched_yield();
	}
	const double taken = now() - begin;
	__atomic_store_n(&end, 1, __ATOMIC_RELAXED);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return taken;
}

int main(void)
{
	prepare_calls();
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		double most;
		int tries = 0;
		do {
			CHECK(tries++ < TRIES);
			most = 3 * taken_by(&none, PATIENCE_S) + BESIDES;
		} while (taken_by(&calls[i], most) >= most);
	}
	return 0;
}
