/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread forks in a signal handler: in the child, as in the parent, the handler returns to what
 * it has interrupted, with the mask of before; signals are taken from then on, and none that was
 * pending for the thread in the parent.
 */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { PAGE = 4096 };
static pid_t parent;
static __thread volatile pid_t child;
static volatile int handled, forked, ended, jumps, restarts;
static pthread_t thread;
static sigjmp_buf before;
static char *page;
static int ends[2];

static int in_child(void)
{
	return getpid() != parent;
}

static void forks(int signal)
{
	struct itimerval often = { { 0, 300000 }, { 0, 300000 } };
	if (forked)
		return;
	forked = 1;
	child = fork();
	CHECK(child >= 0);
	/* If the signal came before the call, nothing else ends that in the child. */
	if (child == 0 && !restarts)
		CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
	if (signal == SIGSEGV)
		CHECK_EQ(mprotect(page, PAGE, PROT_READ | PROT_WRITE), 0);
	if (jumps)
		siglongjmp(before, 1);
}

static void does_nothing(int signal)
{
	(void)signal;
}

static void counts(int signal)
{
	(void)signal;
	handled++;
}

static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	sigaddset(&action.sa_mask, SIGTERM);
	CHECK_EQ(sigaction(signal, &action, NULL), 0);
}

/* As the kernel has it. */
static unsigned long kernels_mask(void)
{
	char line[256];
	unsigned long mask = 0;
	int found = 0;
	FILE *status = fopen("/proc/self/status", "r");
	CHECK(status != NULL);
	while (!found && fgets(line, sizeof line, status) != NULL)
		found = sscanf(line, "SigBlk: %lx", &mask) == 1;
	CHECK(found);
	fclose(status);
	return mask;
}

/* SIGHUP is all that is blocked; what is sent comes, and nothing has been sent yet. */
static void ends_well(void)
{
	sigset_t now;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	for (int signal = 1; signal < 32; signal++)
		CHECK_EQ(sigismember(&now, signal), signal == SIGHUP);
	CHECK_EQ(sigpending(&now), 0);
	CHECK_EQ(sigismember(&now, SIGHUP), !in_child());
	if (!in_child()) {
		int status;
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), 0);
		return;
	}
	CHECK_EQ(kernels_mask(), 1UL << (SIGHUP - 1));
	CHECK_EQ(handled, 0);
	handle(SIGUSR2, counts, 0);
	CHECK_EQ(raise(SIGUSR2), 0);
	CHECK_EQ(handled, 1);
	CHECK_EQ(kill(getpid(), SIGUSR2), 0);
	CHECK_EQ(handled, 2);
	CHECK_EQ(pthread_kill(pthread_self(), SIGUSR2), 0);
	CHECK_EQ(handled, 3);
	handle(SIGHUP, counts, 0);
	CHECK_EQ(raise(SIGHUP), 0);
	CHECK_EQ(handled, 3);
	sigemptyset(&now);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &now, NULL), 0);
	CHECK_EQ(handled, 4);
	_exit(0);
}

static void *sends(void *arg)
{
	(void)arg;
	/* More than once: the first may come before the call. */
	for (sleep_ms(30); !ended; sleep_ms(30))
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	return NULL;
}

/* Has another thread send the signal while `call` goes on. */
static void interrupted(void (*call)(void))
{
	struct timespec at_once = { 0, 0 };
	sigset_t set, before;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	forked = ended = child = 0;
	pthread_t sender = start_thread(sends, NULL);
	call();
	CHECK(forked);
	ended = 1;
	if (!in_child()) {
		join_thread(sender);
		CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, &before), 0);
		while (sigtimedwait(&set, NULL, &at_once) == SIGUSR1)
			;
		CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
	}
	ends_well();
}

static void computes(void)
{
	while (!forked)
		;
}

static void reads(void)
{
	char byte = 0;
	CHECK_ERRNO(read(ends[0], &byte, 1), EINTR);
}

/* Each of the two gets a byte. */
static void reads_again(void)
{
	char byte = 0;
	CHECK_EQ(read(ends[0], &byte, 1), 1);
	CHECK_EQ(byte, 'b');
}

static void *writes(void *arg)
{
	(void)arg;
	while (!forked)
		sleep_ms(1);
	CHECK_EQ(write(ends[1], "bb", 2), 2);
	return NULL;
}

static void sleeps(void)
{
	struct timespec long_time = { 50, 0 };
	CHECK_ERRNO(nanosleep(&long_time, NULL), EINTR);
}

static void suspends(void)
{
	sigset_t open;
	sigemptyset(&open);
	sigaddset(&open, SIGHUP);
	sigaddset(&open, SIGVTALRM);
	CHECK_ERRNO(sigsuspend(&open), EINTR);
}

static void polls(void)
{
	struct pollfd entry = { .fd = ends[0], .events = POLLIN };
	sigset_t open;
	sigemptyset(&open);
	sigaddset(&open, SIGHUP);
	sigaddset(&open, SIGPIPE);
	CHECK_ERRNO(ppoll(&entry, 1, NULL, &open), EINTR);
}

/* The handler goes back to here. */
static void leaves(void)
{
	if (sigsetjmp(before, 1) == 0) {
		jumps = 1;
		suspends();
	}
	jumps = 0;
}

static void *asks(void *arg)
{
	sigset_t set;
	(void)arg;
	thread = pthread_self();
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	/* It stays pending for the thread, and none of its children's. */
	handle(SIGHUP, counts, 0);
	CHECK_EQ(raise(SIGHUP), 0);
	handle(SIGUSR1, forks, 0);
	CHECK_EQ(raise(SIGUSR1), 0);
	ends_well();
	forked = 0;
	handle(SIGSEGV, forks, 0);
	CHECK_EQ(mprotect(page, PAGE, PROT_NONE), 0);
	*(volatile char *)page = 1;
	ends_well();
	interrupted(computes);
	interrupted(reads);
	interrupted(sleeps);
	interrupted(suspends);
	interrupted(polls);
	interrupted(leaves);
	handle(SIGUSR1, forks, SA_RESTART);
	restarts = 1;
	forked = 0;
	pthread_t writer = start_thread(writes, NULL);
	interrupted(reads_again);
	join_thread(writer);
	restarts = 0;
	interrupted(suspends);
	return NULL;
}

int main(void)
{
	sigset_t all;
	parent = getpid();
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	CHECK_EQ(pipe(ends), 0);
	handle(SIGALRM, does_nothing, 0);
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	pthread_t asking = start_thread(asks, NULL);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	join_thread(asking);
	CHECK_EQ(handled, 0);
	return 0;
}
