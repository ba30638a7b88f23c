/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * SIGPIPE and SIGXFSZ that somebody sends to the process, beside threads that block them: a thread
 * on a stack of the program's, which lets them through, waits for them or begins to, gets them, and
 * is told who sent them. So does the main thread, and one that begins when they are pending. A wait
 * that was left by a jump gets none, nor one that is over.
 */
#define _GNU_SOURCE
#include "check.h"
#include "own_stack.h"
#include "pending.h"
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

enum { BUSY = 2, WAYS = 6, WAIT_MS = 20 };

static sigset_t both, none, jumps;
static int stop, stage, handled;
static pid_t sender;
static pthread_t handled_by;
static siginfo_t told;
static sigjmp_buf before_wait;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)context;
	told = *info;
	handled_by = pthread_self();
	set_value(&handled, number);
}

static void on_jump(int number)
{
	(void)number;
	siglongjmp(before_wait, 1);
}

/* What the thread blocks stays. */
static void on_mask(int number)
{
	(void)number;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
}

/* From a child, or by this process itself. */
static void send(int number, int from_child)
{
	sender = getpid();
	if (!from_child) {
		CHECK_EQ(kill(getpid(), number), 0);
		return;
	}
	pid_t process = getpid(), child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(is_pending(number) || kill(process, number) != 0);
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	sender = child;
}

static void *computes(void *arg)
{
	while (!*(volatile int *)&stop)
		;
	return arg;
}

/* What it is told, where it can be. */
static int take(int way)
{
	int number = 0;
	siginfo_t info = { .si_code = SI_USER };
	struct timespec minute = { 60, 0 };
	switch (way) {
	case 0:
		CHECK_EQ(sigwait(&both, &number), 0);
		break;
	case 1:
		do
			number = sigwaitinfo(&both, &info);
		while (number < 0 && errno == EINTR);
		break;
	case 2:
		do
			number = sigtimedwait(&both, &info, &minute);
		while (number < 0 && errno == EINTR);
		break;
	case 3:
		CHECK_ERRNO(sigsuspend(&none), EINTR);
		break;
	case 4:
		CHECK_ERRNO(ppoll(NULL, 0, &minute, &none), EINTR);
		break;
	case 5:
		CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &both, NULL), 0);
		await_value(&stage, 2);
		while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) == 0)
			sleep_ms(1);
		CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
		break;
	}
	if (way >= 3) {
		number = handled;
		info = told;
		CHECK(pthread_equal(handled_by, pthread_self()));
	}
	await_value(&stage, 2);
	CHECK_EQ(info.si_code, SI_USER);
	if (way != 0)
		CHECK_EQ(info.si_pid, sender);
	CHECK(!is_pending(number));
	return number;
}

static void *takes(void *way)
{
	set_value(&stage, 1);
	return (void *)(intptr_t)take((int)(intptr_t)way);
}

static pthread_t start_taker(int way)
{
	handled = 0;
	set_value(&stage, 0);
	pthread_t thread = start_on_own_stack(takes, (void *)(intptr_t)way);
	await_value(&stage, 1);
	return thread;
}

/* Both when the thread is there already, and when it may be on its way. */
static void to_other(int way, int number, int from_child)
{
	for (int wait_ms = 0; wait_ms <= WAIT_MS; wait_ms += WAIT_MS) {
		pthread_t thread = start_taker(way);
		sleep_ms(wait_ms);
		if (way == 0 && wait_ms != 0) {
			/* It goes on waiting. */
			CHECK_EQ(pthread_kill(thread, SIGUSR2), 0);
			sleep_ms(wait_ms);
		}
		send(number, from_child);
		set_value(&stage, 2);
		CHECK_EQ((intptr_t)join_thread(thread), number);
	}
}

struct wish {
	int number, from_child, wait_ms;
};

static void *sends(void *arg)
{
	struct wish *wish = arg;
	await_value(&stage, 1);
	sleep_ms(wish->wait_ms);
	send(wish->number, wish->from_child);
	set_value(&stage, 2);
	return NULL;
}

static void to_main(int way, int number, int from_child)
{
	for (int wait_ms = 0; wait_ms <= WAIT_MS; wait_ms += WAIT_MS) {
		struct wish wish = { number, from_child, wait_ms };
		handled = 0;
		set_value(&stage, 0);
		pthread_t thread = start_thread(sends, &wish);
		set_value(&stage, 1);
		CHECK_EQ(take(way), number);
		join_thread(thread);
	}
}

static void *looks(void *arg)
{
	while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) == 0)
		sleep_ms(1);
	CHECK(pthread_equal(handled_by, pthread_self()));
	return arg;
}

/* It is pending when the only thread that lets it through begins; not so in a child. */
static void to_later(int number, int from_child)
{
	pthread_attr_t attr;
	pthread_t thread;
	void *stack = mmap(NULL, OWN_STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handled = 0;
	send(number, from_child);
	await_pending(number);
	pid_t first = sender, child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(is_pending(number));
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK(stack != MAP_FAILED);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstack(&attr, stack, OWN_STACK_BYTES), 0);
	CHECK_EQ(pthread_attr_setsigmask_np(&attr, &none), 0);
	CHECK_EQ(pthread_create(&thread, &attr, looks, NULL), 0);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	join_thread(thread);
	CHECK_EQ(handled, number);
	CHECK_EQ(told.si_pid, first);
	CHECK(!is_pending(number));
	CHECK_EQ(munmap(stack, OWN_STACK_BYTES), 0);
}

static void *waits(void *arg)
{
	int number;
	set_value(&stage, 1);
	CHECK_EQ(sigwait(&both, &number), 0);
	set_value(&stage, 3);
	return arg;
}

/* For another thread that waits. */
static void expect_wait(int number, int from_child)
{
	set_value(&stage, 0);
	pthread_t thread = start_thread(waits, NULL);
	await_value(&stage, 1);
	sleep_ms(WAIT_MS);
	send(number, from_child);
	join_thread(thread);
	CHECK_EQ(stage, 3);
}

static void *ends_wait(void *main_thread)
{
	while (__atomic_load_n(&stage, __ATOMIC_SEQ_CST) == 0) {
		sleep_ms(WAIT_MS);
		pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
	}
	return NULL;
}

/* Waits of the main thread that are over, by a jump too. */
static void left(int number, int from_child)
{
	struct timespec at_once = { 0, 0 };
	pthread_t self = pthread_self();
	CHECK_ERRNO(sigtimedwait(&both, NULL, &at_once), EAGAIN);
	expect_wait(number, from_child);
	set_value(&stage, 0);
	pthread_t thread = start_thread(ends_wait, &self);
	if (sigsetjmp(before_wait, 0) == 0) {
		CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &jumps, NULL), 0);
		CHECK_EQ(sigwaitinfo(&both, NULL), 0);
	}
	/* It is blocked, as in its handler; another one may be pending. */
	set_value(&stage, 1);
	join_thread(thread);
	expect_wait(number, from_child);
	sigtimedwait(&jumps, NULL, &at_once);
}

int main(void)
{
	pthread_t busy[BUSY];
	sigemptyset(&none);
	sigemptyset(&both);
	sigaddset(&both, SIGPIPE);
	sigaddset(&both, SIGXFSZ);
	sigemptyset(&jumps);
	sigaddset(&jumps, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &jumps, NULL), 0);
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	CHECK_EQ(sigaction(SIGPIPE, &action, NULL), 0);
	CHECK_EQ(sigaction(SIGXFSZ, &action, NULL), 0);
	CHECK(signal(SIGUSR1, on_jump) != SIG_ERR);
	CHECK(signal(SIGUSR2, on_mask) != SIG_ERR);
	for (int index = 0; index < BUSY; index++)
		busy[index] = start_thread(computes, NULL);
	for (int from_child = 0; from_child < 2; from_child++)
		for (int index = 0; index < 2; index++) {
			int number = index ? SIGXFSZ : SIGPIPE;
			for (int way = 0; way < WAYS; way++) {
				to_other(way, number, from_child);
				to_main(way, number, from_child);
			}
			to_later(number, from_child);
			left(number, from_child);
		}
	stop = 1;
	for (int index = 0; index < BUSY; index++)
		join_thread(busy[index]);
	return 0;
}
