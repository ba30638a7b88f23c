/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A SIGPIPE that a thread's write raises is handled in that thread, once for each write, also when
 * another process sends the process one in the same moment; where it is blocked both are pending.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { WRITES = 20000 };

/* Shared with the child: how many writes have begun, and how many signals it has sent. */
struct shared {
	int begun, sent;
};

static struct shared *shared;
static sigset_t pipe_only;
static pid_t own, child;
static pthread_t writer;
static int raised, elsewhere, sent;

static void on_pipe(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_pid == child)
		add_value(&sent, 1);
	else
		add_value(pthread_equal(pthread_self(), writer) ? &raised : &elsewhere, 1);
}

/* Sends one for each write, while that is made if it can. */
static void start_sender(void)
{
	*shared = (struct shared){ 0, 0 };
	own = getpid();
	child = fork();
	CHECK(child >= 0);
	if (child != 0)
		return;
	for (int seen = 0, now; seen < WRITES; seen = now) {
		while ((now = __atomic_load_n(&shared->begun, __ATOMIC_SEQ_CST)) == seen)
			if (getppid() != own)
				_exit(1);
		if (kill(own, SIGPIPE) != 0)
			_exit(1);
		add_value(&shared->sent, 1);
	}
	_exit(0);
}

static void end_sender(void)
{
	int status;
	pid_t got;
	do
		got = waitpid(child, &status, 0);
	while (got < 0 && errno == EINTR);
	CHECK_EQ(got, child);
	CHECK_EQ(status, 0);
}

static int nobody_reads(void)
{
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(close(ends[0]), 0);
	return ends[1];
}

static void *handles(void *arg)
{
	int fd = nobody_reads();
	writer = pthread_self();
	raised = elsewhere = sent = 0;
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &pipe_only, NULL), 0);
	for (int i = 1; i <= WRITES; i++) {
		set_value(&shared->begun, i);
		CHECK_ERRNO(write(fd, "lost", 4), EPIPE);
		await_value(&raised, i);
	}
	CHECK_EQ(close(fd), 0);
	return arg;
}

static void *blocks(void *arg)
{
	struct timespec at_once = { 0, 0 };
	int fd = nobody_reads();
	siginfo_t info;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &pipe_only, NULL), 0);
	for (int i = 1; i <= WRITES; i++) {
		set_value(&shared->begun, i);
		CHECK_ERRNO(write(fd, "lost", 4), EPIPE);
		do
			CHECK_EQ(sigtimedwait(&pipe_only, &info, &at_once), SIGPIPE);
		while (info.si_pid == child);
		CHECK_EQ(info.si_pid, own);
	}
	CHECK_EQ(close(fd), 0);
	return arg;
}

static void beside(void *(*body)(void *))
{
	start_sender();
	join_thread(start_thread(body, NULL));
	end_sender();
}

int main(void)
{
	struct timespec at_once = { 0, 0 };
	struct sigaction action = { .sa_sigaction = on_pipe, .sa_flags = SA_SIGINFO };
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	CHECK_EQ(sigaction(SIGPIPE, &action, NULL), 0);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &pipe_only, NULL), 0);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	beside(handles);
	CHECK_EQ(elsewhere, 0);
	CHECK_EQ(raised, WRITES);
	CHECK(sent <= shared->sent);
	beside(blocks);
	CHECK_EQ(raised, WRITES);
	sigtimedwait(&pipe_only, NULL, &at_once);
	return 0;
}
