/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * In a child that a thread has forked, that thread is joined like any other by one that it makes:
 * after its pthread_exit and after the end of its start function, whether somebody joins it in the
 * parent or not; and a kernel thread after its cancellation, too.
 */
#define _GNU_SOURCE
#include "own_stack.h"

#include <execinfo.h>
#include <sys/wait.h>

enum { EXITS, RETURNS, IS_CANCELLED };
enum { WAITS, COMES_LATER, TRIES, HAS_TIME, HOWS };

static pthread_t forker;
static int end, how;

static void *join_forker(void *arg)
{
	void *result = NULL;
	struct timespec until = moment(CLOCK_REALTIME, 20000);
	if (end == IS_CANCELLED)
		CHECK_EQ(pthread_cancel(forker), 0);
	if (how == COMES_LATER)
		sleep_ms(20);
	if (how == HAS_TIME)
		CHECK_EQ(pthread_timedjoin_np(forker, &result, &until), 0);
	else if (how != TRIES)
		CHECK_EQ(pthread_join(forker, &result), 0);
	else
		while (pthread_tryjoin_np(forker, &result) == EBUSY)
			sleep_ms(1);
	CHECK(result == (end == IS_CANCELLED ? PTHREAD_CANCELED : &forker));
	exit(7);
	return arg;
}

static void *forks(void *arg)
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		forker = pthread_self();
		start_thread(join_forker, NULL);
		if (how != COMES_LATER)
			sleep_ms(5);
		if (end == EXITS)
			pthread_exit(&forker);
		while (end == IS_CANCELLED)
			pause();
		return &forker;
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 7);
	return arg;
}

static void try_all(pthread_t (*start)(void *(*)(void *), void *), int last)
{
	for (end = 0; end <= last; end++) {
		for (how = 0; how < HOWS; how++)
			join_thread(start(forks, NULL));
	}
}

/* Nobody joins it in the parent. */
static void *forks_alone(void *done)
{
	forks(NULL);
	set_value(done, 1);
	return NULL;
}

int main(void)
{
	int is_done = 0;
	/* Loads the unwinder: a fork beside the pthread_exit that does so leaves the child without. */
	void *frame;
	CHECK_EQ(backtrace(&frame, 1), 1);
	/* The first round is in a process that has made no full threads. */
	try_all(start_on_own_stack, IS_CANCELLED);
	try_all(start_thread, RETURNS);
	try_all(start_on_own_stack, IS_CANCELLED);
	end = EXITS, how = WAITS;
	start_thread(forks_alone, &is_done);
	while (!__atomic_load_n(&is_done, __ATOMIC_SEQ_CST))
		sleep_ms(1);
	return 0;
}
