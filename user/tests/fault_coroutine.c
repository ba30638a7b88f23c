/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Coroutines: threads that switch between stacks of the program's own making, by swapcontext. They
 * wait there, and have faults there whose handlers wait. Each handler has the mask and the siginfo
 * of its own fault all the time, on whatever stack it runs.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { COROUTINES = 3, THREADS = 6, TURNS = 24, STACK_BYTES = 64 << 10 };

struct thread {
	ucontext_t main, coroutines[COROUTINES];
	char *stacks[COROUTINES], *alternate;
	volatile char *closed;
	int turns;
};

static __thread struct thread *own;
static long page;
static int faults;

static int is_blocked(int number)
{
	sigset_t set;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	return sigismember(&set, number);
}

static void check_fault(siginfo_t *info, struct thread *thread)
{
	CHECK(own == thread);
	CHECK(info->si_addr == thread->closed);
	CHECK(is_blocked(SIGSEGV));
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	struct thread *thread = own;
	char *here = __builtin_frame_address(0), *alternate = thread->alternate;
	(void)context;

	CHECK_EQ(number, SIGSEGV);
	check_fault(info, thread);
	CHECK_EQ(alternate && here >= alternate && here < alternate + STACK_BYTES,
		 alternate != NULL);
	__atomic_add_fetch(&faults, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 3; i++) {
		usleep(100);
		check_fault(info, thread);
	}
	CHECK_EQ(mprotect((void *)thread->closed, page, PROT_READ | PROT_WRITE), 0);
}

static void divides(int number, siginfo_t *info, void *context)
{
	ucontext_t *user = context;
	CHECK_EQ(number, SIGFPE);
	CHECK(is_blocked(SIGFPE));
	usleep(100);
	CHECK(is_blocked(SIGFPE));
	CHECK_EQ(info->si_code, FPE_INTDIV);
#ifdef __x86_64__
	/* idivl %ecx */
	user->uc_mcontext.gregs[REG_RIP] += 2;
#else
	(void)user;
#endif
}

static void divide_by_zero(void)
{
#ifdef __x86_64__
	int low = 1, high = 0;
	__asm__ volatile("idivl %%ecx" : "+a"(low), "+d"(high) : "c"(0));
	CHECK_EQ(low, 1);
#endif
}

static void body(int number)
{
	struct thread *thread = own;
	for (int turn = 0; turn < TURNS; turn++) {
		CHECK(own == thread);
		thread->turns++;
		if (turn % 4 == 1)
			usleep(100);
		if (turn % 4 == 2) {
			CHECK_EQ(mprotect((void *)thread->closed, page, PROT_NONE), 0);
			*thread->closed = 1;
			CHECK(!is_blocked(SIGSEGV));
		}
		if (turn % 4 == 3) {
			divide_by_zero();
			CHECK(!is_blocked(SIGFPE));
		}
		CHECK_EQ(swapcontext(&thread->coroutines[number], &thread->main), 0);
	}
}

static void *run(void *arg)
{
	struct thread *thread = own = calloc(1, sizeof(*thread));
	if ((intptr_t)arg % 2) {
		stack_t stack = { .ss_size = STACK_BYTES };
		thread->alternate = stack.ss_sp = malloc(STACK_BYTES);
		CHECK_EQ(sigaltstack(&stack, NULL), 0);
	}
	thread->closed = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(thread->closed != MAP_FAILED);
	for (int i = 0; i < COROUTINES; i++) {
		ucontext_t *coroutine = &thread->coroutines[i];
		CHECK_EQ(getcontext(coroutine), 0);
		coroutine->uc_stack.ss_sp = thread->stacks[i] = malloc(STACK_BYTES);
		coroutine->uc_stack.ss_size = STACK_BYTES;
		coroutine->uc_link = &thread->main;
		makecontext(coroutine, (void (*)(void))body, 1, i);
	}
	for (int turn = 0; turn < TURNS; turn++)
		for (int i = 0; i < COROUTINES; i++)
			CHECK_EQ(swapcontext(&thread->main, &thread->coroutines[i]), 0);
	CHECK_EQ(thread->turns, TURNS * COROUTINES);
	for (int i = 0; i < COROUTINES; i++)
		free(thread->stacks[i]);
	stack_t none = { .ss_flags = SS_DISABLE };
	CHECK_EQ(sigaltstack(&none, NULL), 0);
	free(thread->alternate);
	CHECK_EQ(munmap((void *)thread->closed, page), 0);
	free(thread);
	return arg;
}

int main(void)
{
#ifndef __x86_64__
	SKIP("an instruction is skipped by its length on x86-64");
#endif
	page = sysconf(_SC_PAGESIZE);
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
	/* Not on an alternate stack. */
	action.sa_sigaction = divides;
	action.sa_flags = SA_SIGINFO;
	CHECK_EQ(sigaction(SIGFPE, &action, NULL), 0);
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(run, (void *)(intptr_t)i);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	CHECK_EQ(faults, THREADS * COROUTINES * TURNS / 4);
	return 0;
}
