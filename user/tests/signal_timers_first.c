/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Several threads make the process's first timers that name threads, at the same time.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { THREADS = 4 };

static int came;

static void *make_one(void *arg)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	timer_t timer;
	event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
	/* Not by a barrier: those whom it wakes come one after the other. */
	__atomic_add_fetch(&came, 1, __ATOMIC_SEQ_CST);
	for (long i = 0; __atomic_load_n(&came, __ATOMIC_SEQ_CST) < THREADS; i++)
		if (i % 1000 == 999)
			sched_yield();
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	CHECK_EQ(timer_delete(timer), 0);
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, make_one, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	return 0;
}
