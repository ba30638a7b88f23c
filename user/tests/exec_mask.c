/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program begins with the mask of the one that it was before, and so do its threads; what all
 * block stays pending for the process until a thread takes it, though nobody has blocked it in this
 * program. So it is where the main thread makes the others, and where it makes one, on a stack of
 * the program's, and only waits for that.
 */
#define _GNU_SOURCE
#include "own_stack.h"
#include "pending.h"
#include "send.h"
#include "unseen.h"
#include <sys/wait.h>

static const int numbers[] = { SIGPIPE, SIGXFSZ, SIGUSR1, SIGTERM };
enum { NUMBERS = sizeof numbers / sizeof *numbers, BUSY = 2 };

static sigset_t all;
static int handled, stop, stage;
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

static void *computes(void *arg)
{
	while (!*(volatile int *)&stop)
		;
	return arg;
}

static void *waits(void *arg)
{
	int number;
	CHECK_EQ(sigwait(&all, &number), 0);
	CHECK_EQ(number, *(int *)arg);
	return NULL;
}

/* Lets them through, one at a time. */
static void *unblocks(void *arg)
{
	int number = *(int *)arg;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	set_value(&stage, 1);
	long end = now_ms() + 20000;
	while (value_of(&handled) == 0) {
		CHECK(now_ms() < end);
		sleep_ms(1);
	}
	CHECK_EQ(handled, number);
	CHECK(pthread_equal(handled_by, pthread_self()));
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	return NULL;
}

static void *goes_on(void *arg)
{
	pthread_t busy[BUSY];
	for (int index = 0; index < NUMBERS; index++)
		CHECK(signal(numbers[index], on_signal) != SIG_ERR);
	for (int index = 0; index < BUSY; index++)
		busy[index] = start_thread(computes, NULL);
	for (int which = 0; which < 2 * NUMBERS; which++) {
		int number = numbers[which / 2], from_child = which % 2;
		/* Pending before somebody waits for it. */
		send(number, from_child);
		await_pending(number);
		join_thread(start_thread(waits, &number));
		CHECK_EQ(handled, 0);
		/* When a thread lets it through already, and when one begins to. */
		set_value(&stage, 0);
		pthread_t thread = start_thread(unblocks, &number);
		await_value(&stage, 1);
		send(number, from_child);
		join_thread(thread);
		set_value(&handled, 0);
		send(number, from_child);
		await_pending(number);
		join_thread(start_thread(unblocks, &number));
		CHECK(!is_pending(number));
		set_value(&handled, 0);
	}
	/* Nor did this thread take any. It does when it lets them through. */
	send(SIGPIPE, 1);
	await_pending(SIGPIPE);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &all, NULL), 0);
	CHECK_EQ(handled, SIGPIPE);
	CHECK(pthread_equal(handled_by, pthread_self()));
	stop = 1;
	for (int index = 0; index < BUSY; index++)
		join_thread(busy[index]);
	return arg;
}

int main(int count, char **arguments)
{
	sigemptyset(&all);
	for (int index = 0; index < NUMBERS; index++)
		sigaddset(&all, numbers[index]);
	if (count > 1) {
		/* The new program. */
		if (strcmp(arguments[1], "alone") == 0)
			goes_on(NULL);
		else
			join_thread(start_on_own_stack(goes_on, NULL));
		return 0;
	}
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		execl(arguments[0], arguments[0], "alone", NULL);
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	execl(arguments[0], arguments[0], "beside", NULL);
	CHECK(!"it became no other program");
}
