/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A thread that uses as much stack as it is told: at once small frames, so that the guard is met.
 * "handled": the program has a handler for it, on a signal stack of its own. */
#define _GNU_SOURCE
#include "own_table.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;
static volatile int handled, others;

static __attribute__((noinline)) int dig(long bytes)
{
	volatile char room[512];

	room[0] = (char)bytes;
	return bytes > 0 ? dig(bytes - 512) + room[0] : room[0];
}

static void *start(void *bytes)
{
	pthread_setname_np(pthread_self(), "digger");
	dig((long)bytes);
	return NULL;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	CHECK_EQUAL(number, SIGSEGV);
	CHECK(info->si_code > 0);
	handled++;
	siglongjmp(back, 1);
}

/* Asks for a signal stack, which the thread has not set: it needs as much as on any stack. */
static void on_other(int number)
{
	volatile char room[40000];

	CHECK_EQUAL(number, SIGUSR1);
	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = (char)0xff;
	others++;
}

static void *start_handled(void *bytes)
{
	static char stack[65536];
	const stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
	volatile long kept[64];

	for (long i = 0; i < 64; i++)
		kept[i] = i;
	CHECK_EQUAL(raise(SIGUSR1), 0);
	CHECK_EQUAL(others, 1);
	for (long i = 0; i < 64; i++)
		CHECK_EQUAL(kept[i], i);
	CHECK_EQUAL(sigaltstack(&own, NULL), 0);
	if (!sigsetjmp(back, 1))
		*(volatile int *)8 = 1;
	if (!sigsetjmp(back, 1))
		dig((long)bytes);
	return NULL;
}

int main(int count, char **arguments)
{
	const long bytes = atol(arguments[1]);
	const int is_handled = count > 2;
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK}, known;
	struct sigaction other = {.sa_flags = SA_ONSTACK};
	pthread_t thread;

	action.sa_sigaction = on_fault;
	other.sa_handler = on_other;
	if (is_handled) {
		CHECK_EQUAL(sigaction(SIGSEGV, &action, NULL), 0);
		CHECK_EQUAL(sigaction(SIGUSR1, &other, NULL), 0);
	}
	CHECK_EQUAL(pthread_create(&thread, NULL, is_handled ? start_handled : start,
				   (void *)bytes), 0);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	if (is_handled) {
		/* What the program is told of its handler is its own. */
		CHECK_EQUAL(sigaction(SIGSEGV, NULL, &known), 0);
		CHECK(known.sa_sigaction == on_fault);
		CHECK_EQUAL(known.sa_flags & (SA_SIGINFO | SA_ONSTACK), SA_SIGINFO | SA_ONSTACK);
		printf("handled %d\n", handled);
	}
	return 0;
}
