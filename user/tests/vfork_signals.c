/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The child of a vfork has a mask and pending signals of its own: what it unblocks, and is sent,
 * is not its parent's. And what all threads block is pending while one of them starts others.
 */
#define _GNU_SOURCE
#include "check.h"
#include "own_stack.h"
#include "pending.h"
#include <signal.h>
#include <sys/wait.h>

enum { STARTED = 100 };

static sigset_t both;
static int stop, ready;
static volatile int handled;

static void on_signal(int number)
{
	(void)number;
	handled++;
}

static int status_of(pid_t child)
{
	int status;
	CHECK(child >= 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	return status;
}

/* By another process. */
static void send(int number)
{
	pid_t process = getpid(), child = fork();
	if (child == 0)
		_exit(kill(process, number) != 0);
	CHECK_EQ(status_of(child), 0);
}

/* A thread may be about to say that it has it. */
static void take(int number)
{
	struct timespec minute = { 60, 0 }, at_once = { 0, 0 };
	CHECK_EQ(sigtimedwait(&both, NULL, &minute), number);
	CHECK_ERRNO(sigtimedwait(&both, NULL, &at_once), EAGAIN);
}

/* One is pending for the parent, and stays so. */
static void *unblocks(void *arg)
{
	send(SIGPIPE);
	await_pending(SIGPIPE);
	pid_t child = vfork();
	if (child == 0) {
		if (is_pending(SIGPIPE))
			_exit(1);
		if (pthread_sigmask(SIG_UNBLOCK, &both, NULL) != 0)
			_exit(2);
		if (sigprocmask(SIG_BLOCK, &both, NULL) != 0)
			_exit(3);
		_exit(0);
	}
	CHECK_EQ(status_of(child), 0);
	await_pending(SIGPIPE);
	take(SIGPIPE);
	return arg;
}

static void *waits(void *arg)
{
	int number;
	add_value(&ready, 1);
	CHECK_EQ(sigwait(&both, &number), 0);
	CHECK_EQ(number, SIGPIPE);
	return arg;
}

/* The parent takes none for all that. */
static void unblocks_for_itself(void)
{
	pid_t child = vfork();
	if (child == 0)
		_exit(sigprocmask(SIG_UNBLOCK, &both, NULL) != 0);
	CHECK_EQ(status_of(child), 0);
	set_value(&ready, 0);
	pthread_t thread = start_thread(waits, NULL);
	await_value(&ready, 1);
	send(SIGPIPE);
	join_thread(thread);
}

static void write_where_nobody_reads(void)
{
	int ends[2];
	if (pipe(ends) != 0 || close(ends[0]) != 0)
		_exit(1);
	if (write(ends[1], "lost", 4) != -1 || errno != EPIPE)
		_exit(2);
	close(ends[1]);
}

/* What it raises, and sends itself. */
static void *raises(void *arg)
{
	pid_t child = vfork();
	if (child == 0) {
		sigprocmask(SIG_UNBLOCK, &both, NULL);
		write_where_nobody_reads();
		_exit(3);
	}
	int status = status_of(child);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGPIPE);
	CHECK(signal(SIGPIPE, on_signal) != SIG_ERR);
	handled = 0;
	child = vfork();
	if (child == 0) {
		sigprocmask(SIG_UNBLOCK, &both, NULL);
		write_where_nobody_reads();
		if (handled != 1)
			_exit(3);
		if (kill(getpid(), SIGPIPE) != 0 || handled != 2)
			_exit(4);
		if (sigprocmask(SIG_BLOCK, &both, NULL) != 0)
			_exit(5);
		if (kill(getpid(), SIGPIPE) != 0 || handled != 2)
			_exit(6);
		_exit(!is_pending(SIGPIPE));
	}
	CHECK_EQ(status_of(child), 0);
	CHECK_EQ(handled, 2);
	CHECK(!is_pending(SIGPIPE));
	CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	return arg;
}

static void *computes(void *arg)
{
	while (!*(volatile int *)&stop)
		;
	return arg;
}

static void *looks(void *arg)
{
	sigset_t own;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &own), 0);
	CHECK_EQ(sigismember(&own, SIGPIPE), 1);
	return arg;
}

/* Both kinds of threads, while the signal comes again and again. */
static void *starts(void *arg)
{
	for (int i = 0; i < STARTED; i++) {
		join_thread(start_on_own_stack(looks, NULL));
		join_thread(start_thread(looks, NULL));
		pid_t child = vfork();
		if (child == 0)
			_exit(0);
		CHECK_EQ(status_of(child), 0);
	}
	return arg;
}

static void begins_blocked(void)
{
	pid_t process = getpid(), child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		while (getppid() == process)
			kill(process, SIGPIPE);
		_exit(0);
	}
	pthread_t busy = start_thread(computes, NULL);
	join_thread(start_thread(starts, NULL));
	starts(NULL);
	set_value(&stop, 1);
	join_thread(busy);
	CHECK_EQ(kill(child, SIGKILL), 0);
	CHECK_EQ(WTERMSIG(status_of(child)), SIGKILL);
	await_pending(SIGPIPE);
}

int main(void)
{
	sigemptyset(&both);
	sigaddset(&both, SIGPIPE);
	sigaddset(&both, SIGXFSZ);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
	join_thread(start_thread(unblocks, NULL));
	unblocks(NULL);
	unblocks_for_itself();
	join_thread(start_thread(raises, NULL));
	raises(NULL);
	begins_blocked();
	return 0;
}
