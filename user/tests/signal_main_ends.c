/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The main thread, when it has come to its end by pthread_exit or was cancelled, takes no signal
 * that is sent to the process: another thread that lets it through does, or waits for it. What
 * none of these takes is left pending when the process ends.
 */
#define _GNU_SOURCE
#include "own_stack.h"
#include "pending.h"
#include "send.h"
#include "unseen.h"
#include <sys/wait.h>

enum { EXITS, IS_CANCELLED, ENDS };
/* The thread that outlives it: one that lets signals through, one that waits for them. */
enum { HANDLES, WAITS, ON_OWN_STACK, BLOCKS, OTHERS };

static const int numbers[] = { SIGPIPE, SIGXFSZ, SIGUSR1, SIGTERM };
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static sigset_t all;
static pthread_t main_thread;
static int handled;
static pthread_t handled_by;

static void on_signal(int number)
{
	handled_by = pthread_self();
	set_value(&handled, number);
}

static void send(int number, int from_child)
{
	if (from_child)
		send_from_child(number);
	else
		CHECK_EQ(kill(getpid(), number), 0);
}

/* Its end is known by then. */
static void await_main(int how)
{
	void *result = NULL;
	if (how == IS_CANCELLED)
		CHECK_EQ(pthread_cancel(main_thread), 0);
	CHECK_EQ(pthread_join(main_thread, &result), 0);
	CHECK(result == (how == IS_CANCELLED ? PTHREAD_CANCELED : (void *)&all));
}

static void await_handler(int number)
{
	long end = now_ms() + 20000;
	while (value_of(&handled) == 0) {
		CHECK(now_ms() < end);
		sleep_ms(1);
	}
	CHECK_EQ(handled, number);
	CHECK(pthread_equal(handled_by, pthread_self()));
}

static void take(int other, int number, int from_child)
{
	int got;
	handled = 0;
	send(number, from_child);
	switch (other) {
	case HANDLES:
	case ON_OWN_STACK:
		await_handler(number);
		break;
	case WAITS:
		CHECK_EQ(sigwait(&all, &got), 0);
		CHECK_EQ(got, number);
		CHECK_EQ(handled, 0);
		break;
	case BLOCKS:
		while (!is_pending(number))
			sleep_ms(1);
		break;
	}
}

static int how, other;

static void at_exit(void)
{
	CHECK_EQ(handled, 0);
}

static void *outlives(void *arg)
{
	CHECK_EQ(pthread_sigmask(other == HANDLES || other == ON_OWN_STACK ? SIG_UNBLOCK : SIG_BLOCK,
				 &all, NULL), 0);
	await_main(how);
	for (int from_child = 0; from_child < 2; from_child++)
		for (int index = 0; index < NUMBERS; index++)
			take(other, numbers[index], from_child);
	if (other == BLOCKS)
		CHECK_EQ(atexit(at_exit), 0);
	return arg;
}

/* In a process of its own, whose main thread lets all through. */
static void end_main(void)
{
	main_thread = pthread_self();
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &all, NULL), 0);
	if (other == ON_OWN_STACK)
		start_on_own_stack(outlives, NULL);
	else
		start_thread(outlives, NULL);
	if (how == EXITS)
		pthread_exit(&all);
	for (;;)
		pause();
}

int main(void)
{
	sigemptyset(&all);
	for (int index = 0; index < NUMBERS; index++) {
		sigaddset(&all, numbers[index]);
		CHECK(signal(numbers[index], on_signal) != SIG_ERR);
	}
	for (how = 0; how < ENDS; how++)
		for (other = 0; other < OTHERS; other++) {
			pid_t child = fork();
			CHECK(child >= 0);
			if (child == 0)
				end_main();
			int status;
			CHECK_EQ(waitpid(child, &status, 0), child);
			CHECK_EQ(status, 0);
		}
	return 0;
}
