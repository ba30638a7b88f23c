/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A handler of a fault waits for others, computes while others want the processor, and then mends
 * what was wrong, or jumps out. Nobody else's faults, stacks or masks are touched by that: threads
 * do so side by side, with and without an alternate stack, and with handlers that are set, asked
 * for and set back meanwhile.
 */
#define _GNU_SOURCE
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { THREADS = 6, TIMES = 30, COMPUTE_MS = 25, ALTERNATE_BYTES = 64 << 10 };
enum { MENDS, SKIPS, JUMPS, WAYS };

static long page;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int faults;

static __thread volatile char *closed;
static __thread char *alternate;
static __thread int way, deep;
static __thread sigjmp_buf back;

static int is_blocked(int number)
{
	sigset_t set;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	return sigismember(&set, number);
}

static void compute(long ms)
{
	volatile double sum = 0;
	for (long end = now_ms() + ms; now_ms() < end;)
		for (int i = 1; i < 1000; i++)
			sum += 1.0 / i;
}

/* What waits, and what takes long enough for others to want the processor. */
static void linger(int turn)
{
	if (turn % 3 == 0)
		usleep(300);
	if (turn % 3 == 1) {
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
		usleep(100);
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	}
	if (turn % 10 == 2)
		compute(COMPUTE_MS);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	char *here = __builtin_frame_address(0);
	ucontext_t *user = context;
	int turn = __atomic_add_fetch(&faults, 1, __ATOMIC_SEQ_CST), saved = errno;

	CHECK_EQ(number, SIGSEGV);
	CHECK(info->si_addr == closed);
	CHECK(is_blocked(SIGSEGV));
	CHECK(is_blocked(SIGUSR2));
	CHECK(!is_blocked(SIGUSR1));
	CHECK(!sigismember(&user->uc_sigmask, SIGSEGV));
	CHECK_EQ(alternate && here >= alternate && here < alternate + ALTERNATE_BYTES, alternate != NULL);
	CHECK_EQ(deep++, 0);
	linger(turn);
	CHECK_EQ(--deep, 0);
	/* Still its own. */
	CHECK(info->si_addr == closed);
	if (way == MENDS)
		CHECK_EQ(mprotect((void *)closed, page, PROT_READ | PROT_WRITE), 0);
	else if (way == SKIPS)
		/* movb $1, (%rax) */
		user->uc_mcontext.gregs[REG_RIP] += 3;
	else
		siglongjmp(back, 1);
	errno = saved;
}

static int touch(volatile char *at)
{
	int result = 0;
	if (sigsetjmp(back, 1))
		return 2;
	__asm__ volatile("movb $1, (%%rax)\n\tmovl $1, %0" : "+r"(result) : "a"(at) : "memory");
	return result;
}

static void *run(void *arg)
{
	int number = (int)(intptr_t)arg;
	if (number % 2) {
		stack_t stack = { .ss_size = ALTERNATE_BYTES };
		alternate = stack.ss_sp = malloc(ALTERNATE_BYTES);
		CHECK_EQ(sigaltstack(&stack, NULL), 0);
	}
	closed = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(closed != MAP_FAILED);
	for (int i = 0; i < TIMES; i++) {
		way = (i + number) % WAYS;
		CHECK_EQ(mprotect((void *)closed, page, PROT_NONE), 0);
		double kept = 1.0 / (i + 3);
		__asm__ volatile("" : "+x"(kept));
		errno = i;
		CHECK_EQ(touch(closed), way == JUMPS ? 2 : 1);
		CHECK(way == JUMPS || errno == i);
		__asm__ volatile("" : "+x"(kept));
		CHECK(kept == 1.0 / (i + 3));
		CHECK(!is_blocked(SIGSEGV));
		CHECK(!is_blocked(SIGUSR2));
		CHECK_EQ(deep, 0);
		stack_t now;
		CHECK_EQ(sigaltstack(NULL, &now), 0);
		CHECK_EQ(now.ss_flags, alternate ? 0 : SS_DISABLE);
		CHECK(!alternate || now.ss_sp == alternate);
	}
	stack_t none = { .ss_flags = SS_DISABLE };
	CHECK_EQ(sigaltstack(&none, NULL), 0);
	free(alternate);
	alternate = NULL;
	CHECK_EQ(munmap((void *)closed, page), 0);
	return arg;
}

static struct sigaction wanted(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	sigaddset(&action.sa_mask, SIGUSR2);
	return action;
}

static void check_set(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action;
	CHECK_EQ(sigaction(number, NULL, &action), 0);
	CHECK(action.sa_sigaction == handler);
	CHECK_EQ(action.sa_flags & (SA_SIGINFO | SA_ONSTACK | SA_NODEFER), flags);
}

/* What is asked for is what was set, while others are in the handler. */
static void *sets(void *arg)
{
	struct sigaction action = wanted(), before;
	for (int i = 0; i < TIMES; i++) {
		CHECK_EQ(sigaction(SIGSEGV, &action, &before), 0);
		CHECK(before.sa_sigaction == on_fault);
		CHECK(sigismember(&before.sa_mask, SIGUSR2));
		check_set(SIGSEGV, on_fault, SA_SIGINFO | SA_ONSTACK);
		CHECK(signal(SIGBUS, SIG_IGN) == SIG_DFL);
		CHECK(signal(SIGBUS, SIG_DFL) == SIG_IGN);
		usleep(500);
	}
	return arg;
}

static void side_by_side(void)
{
	pthread_t threads[THREADS], setter = start_thread(sets, NULL);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(run, (void *)(intptr_t)i);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	join_thread(setter);
}

static void ends_deep(int number)
{
	if (number == SIGSEGV)
		*(volatile char *)16 = 1;
	_exit(3);
}

static void *faults_in_handler(void *arg)
{
	*(volatile char *)8 = 1;
	return arg;
}

/* A fault that is blocked ends the process. */
static void blocked_is_the_end(void)
{
	fflush(stderr);
	pid_t child = fork();
	if (child == 0) {
		CHECK(signal(SIGSEGV, ends_deep) != SIG_ERR);
		faults_in_handler(NULL);
		_exit(4);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void *in_thread(void *arg)
{
	blocked_is_the_end();
	return arg;
}

static sigjmp_buf before_once;

static void once(int number)
{
	(void)number;
	siglongjmp(before_once, 1);
}

/* SA_RESETHAND: the default is there again as the handler begins. */
static void *is_reset(void *arg)
{
	struct sigaction action = { .sa_handler = once, .sa_flags = SA_RESETHAND }, now;
	CHECK_EQ(sigaction(SIGFPE, &action, NULL), 0);
	if (sigsetjmp(before_once, 1) == 0)
		CHECK_EQ(raise(SIGFPE), -1);
	CHECK_EQ(sigaction(SIGFPE, NULL, &now), 0);
	CHECK(now.sa_handler == SIG_DFL);
	CHECK(!is_blocked(SIGFPE));
	return arg;
}

static void *nothing(void *arg)
{
	return arg;
}

int main(void)
{
#ifndef __x86_64__
	SKIP("an instruction is skipped by its length on x86-64");
#endif
	page = sysconf(_SC_PAGESIZE);
	struct sigaction action = wanted();

	/* Set before there are threads. */
	CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
	side_by_side();
	/* And when there were. */
	CHECK(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
	join_thread(start_thread(nothing, NULL));
	check_set(SIGSEGV, (void *)SIG_DFL, 0);
	CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
	side_by_side();
	run((void *)1);
	run((void *)2);

	blocked_is_the_end();
	join_thread(start_thread(in_thread, NULL));
	join_thread(start_thread(is_reset, NULL));
	is_reset(NULL);
	return 0;
}
