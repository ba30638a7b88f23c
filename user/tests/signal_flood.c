/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A process that is sent without end what workers let through, as SIGPIPE, handles it, in who lets
 * it through, or has it pending, however many come while another is being handled.
 */
#define _GNU_SOURCE
#include "check.h"
#include "unseen.h"
#include <signal.h>
#include <sys/wait.h>

/* Stacks are small: what piles up there is seen soon. */
enum { THREADS = 2, SENDERS = 4, SENT = 20000, STACK_BYTES = 64 << 10 };

static const int NUMBERS[] = { SIGPIPE, SIGXFSZ, SIGPROF, SIGVTALRM };
enum { COUNT = sizeof(NUMBERS) / sizeof(NUMBERS[0]) };

static sigset_t all;
static int stop, ready, by_main, by_others;
static pthread_t main_thread;

static void on_signal(int number)
{
	(void)number;
	add_value(pthread_equal(pthread_self(), main_thread) ? &by_main : &by_others, 1);
}

static pthread_t start_on_small_stack(void *(*start)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstacksize(&attr, STACK_BYTES), 0);
	CHECK_EQ(pthread_create(&thread, &attr, start, arg), 0);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	return thread;
}

static void *computes(void *lets_through)
{
	CHECK_EQ(pthread_sigmask(lets_through ? SIG_UNBLOCK : SIG_BLOCK, &all, NULL), 0);
	add_value(&ready, 1);
	while (!*(volatile int *)&stop)
		;
	return NULL;
}

static void sends(pid_t process, int number)
{
	for (int i = 0; i < SENT; i++)
		if (kill(process, number) != 0)
			_exit(1);
	_exit(0);
}

/* Returns when all were sent. */
static void flood(int number)
{
	pid_t process = getpid(), children[SENDERS];
	for (int i = 0; i < SENDERS; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (children[i] == 0)
			sends(process, number);
	}
	for (int i = 0; i < SENDERS; i++) {
		int status;
		pid_t got;
		do
			got = waitpid(children[i], &status, 0);
		while (got < 0 && errno == EINTR);
		CHECK_EQ(got, children[i]);
		CHECK_EQ(status, 0);
	}
}

static void handled(int number, int main_lets, int others_let)
{
	pthread_t threads[THREADS];
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	stop = ready = by_main = by_others = 0;
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_on_small_stack(computes, others_let ? &ready : NULL);
	await_value(&ready, THREADS);
	if (main_lets)
		CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &all, NULL), 0);
	flood(number);
	while (value_of(&by_main) + value_of(&by_others) == 0)
		sleep_ms(1);
	set_value(&stop, 1);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	CHECK(main_lets || by_main == 0);
	CHECK(others_let || by_others == 0);
}

static void pending(int number)
{
	pthread_t threads[THREADS];
	struct timespec minute = { 60, 0 }, at_once = { 0, 0 };
	sigset_t set;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	stop = ready = by_main = by_others = 0;
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_on_small_stack(computes, NULL);
	await_value(&ready, THREADS);
	flood(number);
	do
		CHECK_EQ(sigpending(&set), 0);
	while (!sigismember(&set, number));
	set_value(&stop, 1);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	/* A thread may be about to say that it has it. */
	CHECK_EQ(sigtimedwait(&all, NULL, &minute), number);
	/* POSIX leaves open how often one is taken that came several times. */
	while (sigtimedwait(&all, NULL, &at_once) == number)
		;
	CHECK_EQ(by_main + by_others, 0);
}

int main(void)
{
	main_thread = pthread_self();
	sigemptyset(&all);
	for (int i = 0; i < COUNT; i++) {
		sigaddset(&all, NUMBERS[i]);
		CHECK(signal(NUMBERS[i], on_signal) != SIG_ERR);
	}
	for (int i = 0; i < COUNT; i++) {
		handled(NUMBERS[i], 0, 1);
		handled(NUMBERS[i], 1, 0);
		handled(NUMBERS[i], 1, 1);
		pending(NUMBERS[i]);
	}
	return 0;
}
