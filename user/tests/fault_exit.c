/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread ends in the handler of its own fault, again and again: the kernel has blocked the fault
 * for the handler, and with it all else that the action names, but for no thread that comes later.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>

enum { TIMES = 20 };

static int cleaned;

static void leave(int number)
{
	CHECK_EQ(number, SIGSEGV);
	pthread_exit((void *)7);
}

static void clean(void *arg)
{
	(void)arg;
	cleaned++;
}

static void *fault(void *arg)
{
	pthread_cleanup_push(clean, NULL);
	*(volatile int *)8 = 1;
	pthread_cleanup_pop(0);
	return arg;
}

static void *nothing(void *arg)
{
	return arg;
}

int main(void)
{
	struct sigaction action = { .sa_handler = leave };
	/* With threads there before it is the program's alone. */
	join_thread(start_thread(nothing, NULL));
	sigfillset(&action.sa_mask);
	CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
	for (int i = 0; i < TIMES; i++) {
		void *result = NULL;
		pthread_t thread = start_thread(fault, NULL);
		CHECK_EQ(pthread_join(thread, &result), 0);
		CHECK(result == (void *)7);
		CHECK_EQ(cleaned, i + 1);
	}
	return 0;
}
