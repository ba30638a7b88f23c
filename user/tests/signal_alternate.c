/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Each thread has an alternate signal stack of its own: handlers that ask for it run there, and a
 * thread that has overflowed its stack goes on from a handler on the other one.
 */
#define _GNU_SOURCE
#include "check.h"
#include <setjmp.h>
#include <signal.h>

enum { THREADS = 8, ROUNDS = 3, BYTES = 64 << 10 };

static _Thread_local char *room;
static _Thread_local sigjmp_buf back;
static _Thread_local volatile int handled, cleaned;
static int inside;

static int is_on(const void *place)
{
	return (const char *)place >= room && (const char *)place < room + BYTES;
}

static void on_stack(int number, siginfo_t *info, void *context)
{
	stack_t now, other = { .ss_flags = SS_DISABLE };
	CHECK_EQ(number, SIGUSR1);
	CHECK_EQ(info->si_signo, number);
	CHECK(is_on(&now));
	CHECK_EQ(((ucontext_t *)context)->uc_stack.ss_size, BYTES);
	CHECK_EQ(sigaltstack(NULL, &now), 0);
	CHECK_EQ(now.ss_flags, SS_ONSTACK);
	CHECK(now.ss_sp == room);
	CHECK_ERRNO(sigaltstack(&other, NULL), EPERM);
	/* Others run meanwhile, with theirs. */
	sleep_ms(2);
	CHECK(is_on(&now));
	/* Nested: it is in use, and goes on there. */
	if (handled++ == 0) {
		CHECK_EQ(raise(SIGUSR2), 0);
		CHECK_EQ(handled, 2);
	}
}

static void nested(int number)
{
	CHECK(is_on(&number));
	handled++;
}

static void plain(int number)
{
	CHECK(!is_on(&number));
	handled++;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	sigset_t now;
	(void)info;
	(void)context;
	CHECK(is_on(&number));
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	CHECK(sigismember(&now, SIGSEGV));
	handled++;
	siglongjmp(back, 1);
}

__attribute__((noinline)) static int overflow(volatile char *above)
{
	volatile char frame[1024];
	frame[0] = above ? above[0] + 1 : 0;
	return frame[0] + overflow(frame) + frame[5];
}

static void *threads(void *arg)
{
	stack_t now = { .ss_size = 1 }, mine = { 0 };
	CHECK_EQ(sigaltstack(NULL, &now), 0);
	CHECK_EQ(now.ss_flags, SS_DISABLE);
	mine.ss_sp = room = malloc(BYTES);
	mine.ss_size = 100;
	CHECK_ERRNO(sigaltstack(&mine, NULL), ENOMEM);
	mine.ss_size = BYTES;
	mine.ss_flags = 8;
	CHECK_ERRNO(sigaltstack(&mine, NULL), EINVAL);
	mine.ss_flags = 0;
	CHECK_EQ(sigaltstack(&mine, NULL), 0);
	CHECK_EQ(sigaltstack(NULL, &now), 0);
	CHECK_EQ(now.ss_flags, 0);
	CHECK(now.ss_sp == room);
	CHECK_EQ(now.ss_size, BYTES);
	add_value(&inside, 1);
	await_value(&inside, THREADS);

	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(handled, 2);
	CHECK_EQ(raise(SIGTERM), 0);
	CHECK_EQ(handled, 3);
	for (int round = 1; round <= ROUNDS; round++) {
		if (sigsetjmp(back, 1) == 0)
			overflow(NULL);
		CHECK_EQ(handled, 3 + round);
		sigset_t mask;
		CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
		CHECK(!sigismember(&mask, SIGSEGV));
		sched_yield();
	}
	CHECK_EQ(sigaltstack(NULL, &now), 0);
	CHECK_EQ(now.ss_flags, 0);
	mine.ss_flags = SS_DISABLE;
	CHECK_EQ(sigaltstack(&mine, &now), 0);
	CHECK_EQ(now.ss_size, BYTES);
	free(room);
	room = NULL;
	CHECK_EQ(raise(SIGTERM), 0);
	return arg;
}

static void clean(void *word)
{
	(void)word;
	cleaned = 1;
	add_value(&inside, 1);
}

static void leave(int number)
{
	CHECK(is_on(&number));
	pthread_exit((void *)9);
}

static void *leaves(void *arg)
{
	stack_t mine = { .ss_size = BYTES };
	mine.ss_sp = room = arg;
	CHECK_EQ(sigaltstack(&mine, NULL), 0);
	pthread_cleanup_push(clean, NULL);
	CHECK_EQ(raise(SIGHUP), 0);
	pthread_cleanup_pop(0);
	return NULL;
}

static void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	CHECK_EQ(sigaction(number, &action, NULL), 0);
}

int main(void)
{
	handle(SIGUSR1, (void (*)(int))on_stack, SA_SIGINFO | SA_ONSTACK);
	handle(SIGUSR2, nested, SA_ONSTACK);
	handle(SIGTERM, plain, 0);
	handle(SIGHUP, leave, SA_ONSTACK);
	handle(SIGSEGV, (void (*)(int))on_fault, SA_SIGINFO | SA_ONSTACK);
	pthread_t all[THREADS];
	for (int i = 0; i < THREADS; i++)
		all[i] = start_thread(threads, NULL);
	for (int i = 0; i < THREADS; i++)
		join_thread(all[i]);
	/* Above and below the thread's stack. */
	static char low[BYTES];
	set_value(&inside, 0);
	CHECK_EQ(join_thread(start_thread(leaves, low)), 9);
	char high[BYTES];
	CHECK_EQ(join_thread(start_thread(leaves, high)), 9);
	CHECK_EQ(inside, 2);
	return 0;
}
