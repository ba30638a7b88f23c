/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * SIGPROF and SIGVTALRM of setitimer() come to the thread that computes, if that lets them through,
 * and tell its handler where that was, on the thread's stack or its alternate one; whatever that
 * does, the thread goes on with what it had. One that all block is pending for the process, and
 * whoever waits for it gets it. The default ends the process.
 */
#define _GNU_SOURCE
#include "own_stack.h"
#include "pending.h"
#include "unseen.h"
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { COMPUTERS = 2, SAMPLES = 6, ELSEWHERE_MAX = 4000, US = 1000 };
enum { ON_STACK = 1, YIELDS = 2, KINDS = 4 };

static const int numbers[] = { SIGPROF, SIGVTALRM };
static const int timers[] = { ITIMER_PROF, ITIMER_VIRTUAL };

extern const char __start_computing[], __stop_computing[];

static __thread volatile int samples, seen;
static __thread const char *alternate;
static int elsewhere, kind, number;
static sigset_t both;

static const char *place_of(void *context)
{
#ifdef __x86_64__
	return (const char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
	return (const char *)((ucontext_t *)context)->uc_mcontext.pc;
#endif
}

static void on_time(int got, siginfo_t *info, void *context)
{
	char here;
	const char *place = place_of(context);
	CHECK_EQ(got, number);
	CHECK_EQ(info->si_code, SI_KERNEL);
	if (alternate == NULL) {
		CHECK(add_value(&elsewhere, 1) < ELSEWHERE_MAX);
		return;
	}
	if (kind & ON_STACK)
		CHECK(&here > alternate && &here < alternate + OWN_STACK_BYTES);
	if (kind & YIELDS)
		sched_yield();
	samples++;
	if (place >= __start_computing && place < __stop_computing)
		seen++;
}

/* The same number each time, with as many registers as there are. */
__attribute__((noipa, section("computing"))) static uint64_t compute(uint64_t seed, int times)
{
	uint64_t a = seed, b = ~seed, c = seed * 3, d = seed ^ 0x9E3779B97F4A7C15, e = 1, f = 2;
	double x = (double)(seed & 1023), y = 1.5;
	for (int i = 0; i < times; i++) {
		a = a * 6364136223846793005 + b;
		b = (b << 7 | b >> 57) ^ c;
		c += d >> 3;
		d ^= a + e;
		e = e * 31 + f;
		f += b ^ (uint64_t)i;
		x = x * 0.5 + y;
		y = y * 0.25 + 1;
	}
	return a ^ b ^ c ^ d ^ e ^ f ^ (uint64_t)(x * 1000) ^ (uint64_t)(y * 1000);
}

static void set_timer_for(int index, int us, int again_us)
{
	struct itimerval times = { { 0, again_us }, { 0, us } };
	CHECK_EQ(setitimer(timers[index], &times, NULL), 0);
}

static void set_timer(int index, int us)
{
	set_timer_for(index, us, us);
}

static void take_stack(stack_t *stack)
{
	stack->ss_size = OWN_STACK_BYTES;
	stack->ss_flags = 0;
	stack->ss_sp = malloc(OWN_STACK_BYTES);
	CHECK(stack->ss_sp != NULL);
	CHECK_EQ(sigaltstack(stack, NULL), 0);
	alternate = stack->ss_sp;
}

static void *computes(void *arg)
{
	uint64_t seed = (uint64_t)(uintptr_t)arg, expected = compute(seed, 100000);
	stack_t stack, none = { .ss_flags = SS_DISABLE };
	take_stack(&stack);
	while (samples < SAMPLES || seen < SAMPLES / 2)
		CHECK(compute(seed, 100000) == expected);
	CHECK_EQ(sigaltstack(&none, NULL), 0);
	alternate = NULL;
	free(stack.ss_sp);
	return arg;
}

/* Until others have had theirs. */
static void *blocks(void *stop)
{
	stack_t stack, none = { .ss_flags = SS_DISABLE };
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
	take_stack(&stack);
	while (value_of(stop) == 0)
		compute(1, 100000);
	CHECK_EQ(samples, 0);
	CHECK_EQ(sigaltstack(&none, NULL), 0);
	alternate = NULL;
	free(stack.ss_sp);
	return NULL;
}

static void set_handler(int index, int new_kind)
{
	kind = new_kind;
	number = numbers[index];
	struct sigaction action = { .sa_sigaction = on_time, .sa_flags = SA_SIGINFO | SA_RESTART };
	if (kind & ON_STACK)
		action.sa_flags |= SA_ONSTACK;
	CHECK_EQ(sigaction(number, &action, NULL), 0);
}

static void sampled(int index)
{
	pthread_t threads[COMPUTERS + 1], blocked;
	int stop = 0;
	set_timer(index, US);
	blocked = start_thread(blocks, &stop);
	for (int i = 0; i < COMPUTERS; i++)
		threads[i] = start_thread(computes, (void *)(intptr_t)(i + 7));
	threads[COMPUTERS] = start_on_own_stack(computes, &stop);
	for (int i = 0; i <= COMPUTERS; i++)
		join_thread(threads[i]);
	set_value(&stop, 1);
	join_thread(blocked);
	set_timer(index, 0);
}

static void *finds(void *arg)
{
	struct timespec at_once = { 0, 0 };
	while (!is_pending(number))
		compute(1, 10000);
	CHECK_EQ(sigtimedwait(&both, NULL, &at_once), number);
	return arg;
}

static void *waits(void *arg)
{
	int got;
	CHECK_EQ(sigwait(&both, &got), 0);
	CHECK_EQ(got, number);
	return arg;
}

/* All block it. */
static void pending(int index)
{
	int stop = 0;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
	set_timer(index, US);
	join_thread(start_thread(finds, NULL));
	pthread_t busy = start_thread(blocks, &stop);
	waits(NULL);
	join_thread(start_thread(waits, NULL));
	join_thread(start_on_own_stack(waits, NULL));
	set_value(&stop, 1);
	join_thread(busy);
	set_timer(index, 0);
	/* The last one. */
	CHECK(signal(number, SIG_IGN) != SIG_ERR);
	CHECK(!is_pending(number));
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &both, NULL), 0);
}

static void *computes_on(void *arg)
{
	for (;;)
		compute(1, 100000);
	return arg;
}

static void *waits_on(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* The default ends the process, at the first one, be it the main thread that computes or not. */
static void by_default(int index, int is_main)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		pthread_t other = start_thread(is_main ? waits_on : computes_on, NULL);
		set_timer_for(index, US, 0);
		if (is_main)
			computes_on(NULL);
		join_thread(other);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), numbers[index]);
}

int main(void)
{
	sigemptyset(&both);
	sigaddset(&both, SIGPROF);
	sigaddset(&both, SIGVTALRM);
	for (int index = 0; index < 2; index++)
		for (int is_main = 0; is_main < 2; is_main++)
			by_default(index, is_main);
	for (int index = 0; index < 2; index++) {
		for (int new_kind = 0; new_kind < KINDS; new_kind++) {
			set_handler(index, new_kind);
			sampled(index);
		}
		pending(index);
	}
	return 0;
}
