/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * getcontext, setcontext, swapcontext, makecontext: a context has a mask, which its thread has
 * while it runs, and nobody else. What that lets through is handled with the switch. Contexts keep
 * registers and the rounding mode, take any number of arguments, follow their link, and may be
 * gone on with by another thread. That of a handler says what is blocked after it.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fenv.h>
#include <signal.h>
#include <ucontext.h>

enum { STACK_BYTES = 64 << 10, THREADS = 6, SWITCHES = 3000 };

struct coroutine {
	ucontext_t self, caller;
	char stack[STACK_BYTES];
};

static _Thread_local volatile int handled;
static _Thread_local struct coroutine *running;
static volatile int of_process;
static int ended, ready;

static sigset_t only(int number)
{
	sigset_t set;
	sigemptyset(&set);
	if (number)
		sigaddset(&set, number);
	return set;
}

static void mask(int how, int number)
{
	sigset_t set = only(number);
	CHECK_EQ(pthread_sigmask(how, &set, NULL), 0);
}

static int blocks(int number)
{
	sigset_t now;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, number);
}

static void counts(int number)
{
	CHECK(blocks(number));
	handled++;
}

static void counts_all(int number)
{
	(void)number;
	of_process++;
}

/* One that goes on with its caller in the end, if it is linked. */
static struct coroutine *make(void (*body)(void), int linked)
{
	struct coroutine *made = calloc(1, sizeof(*made));
	CHECK(made != NULL);
	CHECK_EQ(getcontext(&made->self), 0);
	made->self.uc_stack.ss_sp = made->stack;
	made->self.uc_stack.ss_size = STACK_BYTES;
	made->self.uc_link = linked ? &made->caller : NULL;
	makecontext(&made->self, body, 0);
	return made;
}

static void enter(struct coroutine *coroutine)
{
	running = coroutine;
	CHECK_EQ(swapcontext(&coroutine->caller, &coroutine->self), 0);
}

static void leave(void)
{
	struct coroutine *coroutine = running;
	CHECK_EQ(swapcontext(&coroutine->self, &coroutine->caller), 0);
}

/* ---- the mask goes with the context */

static void blocks_more(void)
{
	CHECK(!blocks(SIGUSR1));
	CHECK(!blocks(SIGHUP));
	mask(SIG_BLOCK, SIGHUP);
	leave();
	CHECK(!blocks(SIGUSR1));
	CHECK(blocks(SIGHUP));
	leave();
	/* What came while the thread had it blocked comes with the switch. */
	CHECK_EQ(handled, 1);
	mask(SIG_UNBLOCK, SIGHUP);
	CHECK(!blocks(SIGHUP));
}

/* arg: one whose context the main thread has made, with nothing blocked. */
static void *switches_masks(void *arg)
{
	struct coroutine *made = arg;
	mask(SIG_BLOCK, SIGUSR1);
	makecontext(&made->self, blocks_more, 0);
	enter(made);
	CHECK(blocks(SIGUSR1));
	CHECK(!blocks(SIGHUP));
	CHECK(sigismember(&made->self.uc_sigmask, SIGHUP));
	CHECK(!sigismember(&made->self.uc_sigmask, SIGUSR1));
	CHECK(sigismember(&made->caller.uc_sigmask, SIGUSR1));
	enter(made);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(handled, 0);
	CHECK(blocks(SIGUSR1));
	/* Ends, and goes on here by its link. */
	enter(made);
	CHECK_EQ(handled, 1);
	CHECK(blocks(SIGUSR1));
	CHECK(!blocks(SIGHUP));

	/* setcontext; and a mask that the program has written to the context. */
	ucontext_t here;
	volatile int times = 0;
	CHECK_EQ(getcontext(&here), 0);
	if (times++ == 0) {
		CHECK(sigismember(&here.uc_sigmask, SIGUSR1));
		CHECK_EQ(raise(SIGUSR1), 0);
		sigdelset(&here.uc_sigmask, SIGUSR1);
		sigaddset(&here.uc_sigmask, SIGUSR2);
		sigaddset(&here.uc_sigmask, SIGKILL);
		setcontext(&here);
	}
	CHECK_EQ(times, 2);
	CHECK_EQ(handled, 2);
	CHECK(!blocks(SIGUSR1));
	CHECK(blocks(SIGUSR2));
	CHECK(!blocks(SIGKILL));
	return NULL;
}

/* ---- signals to the process do not come through a context that another thread has made */

static void waits_long(void)
{
	mask(SIG_BLOCK, SIGWINCH);
	mask(SIG_BLOCK, SIGTERM);
	set_value(&ready, 1);
	await_value(&ended, 1);
	for (long end = now_ms() + 50; now_ms() < end;)
		;
}

static void *runs_mains(void *arg)
{
	struct coroutine *made = arg;
	makecontext(&made->self, waits_long, 0);
	enter(made);
	return NULL;
}

/* ---- registers, arguments, rounding */

static int sums[16];

static void takes_none(void)
{
	sums[0]++;
}

static void takes_one(int a)
{
	sums[a]++;
}

static void takes_four(int a, int b, int c, int d)
{
	sums[4] += a == 1 && b == 2 && c == 3 && d == 4;
}

static void takes_seven(int a, int b, int c, int d, int e, int f, int g)
{
	sums[7] += a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7;
}

static void takes_ten(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j)
{
	char text[64];
	/* Wants the stack aligned. */
	snprintf(text, sizeof(text), "%.1f", (double)a + 0.5);
	CHECK(strcmp(text, "1.5") == 0);
	sums[10] += a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8 &&
		    i == 9 && j == 10;
}

static void rounds_up(void)
{
	CHECK_EQ(fegetround(), FE_DOWNWARD);
	CHECK_EQ(fesetround(FE_UPWARD), 0);
	leave();
	CHECK_EQ(fegetround(), FE_UPWARD);
}

static void *takes_arguments(void *arg)
{
	struct coroutine *made = make(takes_none, 1);
	enter(made);
	makecontext(&made->self, (void (*)(void))takes_one, 1, 1);
	enter(made);
	makecontext(&made->self, (void (*)(void))takes_four, 4, 1, 2, 3, 4);
	enter(made);
	makecontext(&made->self, (void (*)(void))takes_seven, 7, 1, 2, 3, 4, 5, 6, 7);
	enter(made);
	makecontext(&made->self, (void (*)(void))takes_ten, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
	enter(made);
	for (int i = 0; i <= 10; i++)
		CHECK_EQ(sums[i], i == 0 || i == 1 || i == 4 || i == 7 || i == 10);
	free(made);
	CHECK_EQ(fesetround(FE_DOWNWARD), 0);
	made = make(rounds_up, 1);
	CHECK_EQ(fesetround(FE_TOWARDZERO), 0);
	enter(made);
	CHECK_EQ(fegetround(), FE_TOWARDZERO);
	enter(made);
	CHECK_EQ(fegetround(), FE_TOWARDZERO);
	CHECK_EQ(fesetround(FE_TONEAREST), 0);
	free(made);
	return arg;
}

/* ---- in handlers */

static _Thread_local struct coroutine *other;
static _Thread_local volatile int resumed;

static void leaves(int number)
{
	CHECK(blocks(number));
	handled++;
	/* Preempted, as it were: the other one is gone on with, and this one later. */
	running = other;
	CHECK_EQ(swapcontext(&other->caller, &other->self), 0);
	CHECK(blocks(number));
	resumed++;
}

static void asks(void)
{
	for (;;) {
		CHECK(!blocks(SIGUSR2));
		leave();
	}
}

static void *leaves_handlers(void *arg)
{
	other = make(asks, 1);
	handled = 0;
	for (int i = 1; i <= 3; i++) {
		CHECK_EQ(raise(SIGUSR2), 0);
		CHECK_EQ(handled, i);
		CHECK_EQ(resumed, i);
		CHECK(!blocks(SIGUSR2));
	}
	free(other);
	return arg;
}

/* ---- the context of a handler: its mask is the thread's after it */

static void changes_context(int number, siginfo_t *info, void *context)
{
	sigset_t *after = &((ucontext_t *)context)->uc_sigmask;
	(void)info;
	CHECK(blocks(number));
	CHECK(!sigismember(after, number));
	CHECK(sigismember(after, SIGUSR1));
	sigdelset(after, SIGUSR1);
	sigaddset(after, SIGHUP);
	sigaddset(after, SIGKILL);
	resumed++;
}

/* arg: what it waits for while another thread signals it; NULL: it signals itself. */
static void *is_changed(void *arg)
{
	handled = resumed = 0;
	mask(SIG_BLOCK, SIGUSR1);
	CHECK_EQ(raise(SIGUSR1), 0);
	if (arg)
		set_value(arg, 1);
	else
		CHECK_EQ(raise(SIGWINCH), 0);
	while (!resumed)
		;
	/* What was let through came with the handler's return. */
	CHECK_EQ(handled, 1);
	CHECK_EQ(resumed, 1);
	CHECK(!blocks(SIGUSR1));
	CHECK(!blocks(SIGWINCH));
	CHECK(!blocks(SIGKILL));
	CHECK(blocks(SIGHUP));
	return NULL;
}

static void change_contexts(void)
{
	static int waits;
	struct sigaction action = { .sa_sigaction = changes_context, .sa_flags = SA_SIGINFO };
	CHECK_EQ(sigaction(SIGWINCH, &action, NULL), 0);
	join_thread(start_thread(is_changed, NULL));
	pthread_t thread = start_thread(is_changed, &waits);
	await_value(&waits, 1);
	CHECK_EQ(pthread_kill(thread, SIGWINCH), 0);
	join_thread(thread);
}

/* ---- many switches, signalled all the time; some by another thread than the one before */

static struct coroutine *shared;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int passed;

static void alternates(void)
{
	for (;;) {
		CHECK(!blocks(SIGUSR1));
		mask(SIG_BLOCK, SIGUSR1);
		leave();
		CHECK(blocks(SIGUSR1));
		mask(SIG_UNBLOCK, SIGUSR1);
		leave();
	}
}

static void is_passed_on(void)
{
	for (;;) {
		CHECK(blocks(SIGTERM));
		passed++;
		leave();
	}
}

static void *switches(void *arg)
{
	struct coroutine *made = make(alternates, 1);
	mask(SIG_BLOCK, SIGHUP);
	for (int i = 0; i < SWITCHES; i++) {
		enter(made);
		CHECK(blocks(SIGHUP));
		CHECK(!blocks(SIGUSR1));
		if (i % 16 == 0) {
			pthread_mutex_lock(&turn);
			enter(shared);
			pthread_mutex_unlock(&turn);
			CHECK(!blocks(SIGTERM));
		}
	}
	__atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
	free(made);
	return arg;
}

/* ---- a context without a link ends the process */

static int may_end;

static void ends(void)
{
	_exit(!may_end);
}

static void *has_no_link(void *arg)
{
	enter(make(takes_none, 0));
	return arg;
}

int main(void)
{
	CHECK_EQ(atexit(ends), 0);
	struct sigaction action = { .sa_handler = counts };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	action.sa_handler = leaves;
	CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
	action.sa_handler = counts_all;
	CHECK_EQ(sigaction(SIGTERM, &action, NULL), 0);

	join_thread(start_thread(switches_masks, make(takes_none, 1)));

	struct coroutine *mains = make(takes_none, 1);
	mask(SIG_BLOCK, SIGTERM);
	pthread_t thread = start_thread(runs_mains, mains);
	await_value(&ready, 1);
	CHECK_EQ(kill(getpid(), SIGTERM), 0);
	set_value(&ended, 1);
	join_thread(thread);
	CHECK_EQ(of_process, 0);
	mask(SIG_UNBLOCK, SIGTERM);
	CHECK_EQ(of_process, 1);

	join_thread(start_thread(takes_arguments, NULL));
	join_thread(start_thread(leaves_handlers, NULL));
	change_contexts();

	mask(SIG_BLOCK, SIGTERM);
	shared = make(is_passed_on, 1);
	mask(SIG_UNBLOCK, SIGTERM);
	pthread_t threads[THREADS];
	ended = 0;
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(switches, NULL);
	for (int i = 0; __atomic_load_n(&ended, __ATOMIC_SEQ_CST) < THREADS; i++) {
		pthread_kill(threads[i % THREADS], SIGUSR1);
		if (i % 64 == 0)
			usleep(50);
	}
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	CHECK_EQ(passed, THREADS * ((SWITCHES + 15) / 16));

	may_end = 1;
	join_thread(start_thread(has_no_link, NULL));
	_exit(2);
}
