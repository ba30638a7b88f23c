/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A wait for a condition fails with EPERM where its mutex, which checks, is not the caller's. It
 * has not begun: the thread computes on while others run, and is sent signals meanwhile.
 */
#define _GNU_SOURCE
#include <signal.h>

#include "check.h"

static pthread_mutex_t mutex;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int failed, other_ran, handled;

static void on_signal(int number)
{
	(void)number;
	set_value(&handled, 1);
}

static void *computes(void *arg)
{
	struct timespec until = { 0 };
	long turns = 0;

	CHECK_EQ(arg == NULL ? pthread_cond_wait(&cond, &mutex) :
			       pthread_cond_timedwait(&cond, &mutex, &until),
		 EPERM);
	set_value(&failed, 1);
	while (!__atomic_load_n(&other_ran, __ATOMIC_SEQ_CST) ||
	       !__atomic_load_n(&handled, __ATOMIC_SEQ_CST))
		turns++;
	CHECK(turns > 0);
	return arg;
}

static void *runs(void *arg)
{
	await_value(&failed, 1);
	set_value(&other_ran, 1);
	return arg;
}

int main(void)
{
	pthread_mutexattr_t attr;

	signal(SIGUSR1, on_signal);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	CHECK_EQ(pthread_mutex_init(&mutex, &attr), 0);
	for (int timed = 0; timed < 2; timed++) {
		failed = other_ran = handled = 0;
		pthread_t other = start_thread(runs, NULL);
		pthread_t thread = start_thread(computes, timed ? &attr : NULL);
		await_value(&failed, 1);
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		join_thread(thread);
		join_thread(other);
	}
	return 0;
}
