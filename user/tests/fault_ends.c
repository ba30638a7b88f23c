/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A fault that no handler may take ends the process by its signal: one that is ignored, one that is
 * blocked, a trap in the handler of traps. Threads end it so as the main thread does, and whether
 * the action was set before there were threads or after.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { SURVIVED = 77, TIME_LIMIT_SECONDS = 60 };

struct way {
	const char *what;
	int signal;
	void (*action)(int);
	void *(*body)(void *);
};

static void *nothing(void *arg)
{
	return arg;
}

static void *writes_to_null(void *arg)
{
	*(volatile char *)8 = 1;
	return arg;
}

static void trap(void)
{
#ifdef __x86_64__
	__asm__ volatile("int3");
#else
	__builtin_trap();
#endif
}

static void *traps(void *arg)
{
	trap();
	return arg;
}

static void *traps_blocked(void *arg)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	return traps(arg);
}

static void traps_again(int number)
{
	(void)number;
	trap();
}

static const struct way ways[] = {
	{ "ignored", SIGSEGV, SIG_IGN, writes_to_null },
	{ "default", SIGSEGV, SIG_DFL, writes_to_null },
	{ "trap that is blocked", SIGTRAP, SIG_DFL, traps_blocked },
	{ "trap that is blocked and has a handler", SIGTRAP, traps_again, traps_blocked },
	{ "trap in its handler", SIGTRAP, traps_again, traps },
};

static void end(const struct way *way, int is_early, int is_main)
{
	struct rlimit none = { 0, 0 };
	CHECK_EQ(setrlimit(RLIMIT_CORE, &none), 0);
	alarm(TIME_LIMIT_SECONDS);
	if (is_early)
		CHECK(signal(way->signal, way->action) != SIG_ERR);
	join_thread(start_thread(nothing, NULL));
	if (!is_early)
		CHECK(signal(way->signal, way->action) != SIG_ERR);
	if (is_main)
		way->body(NULL);
	else
		join_thread(start_thread(way->body, NULL));
	_exit(SURVIVED);
}

int main(void)
{
#ifndef __x86_64__
	SKIP("a trap goes on behind its instruction on x86-64");
#endif
	for (unsigned i = 0; i < sizeof(ways) / sizeof(*ways) * 4; i++) {
		const struct way *way = &ways[i / 4];
		/* Before there are threads: a child of one that has some makes kernel threads. */
		pid_t child = fork();
		if (child == 0)
			end(way, i & 1, i >> 1 & 1);
		int status;
		CHECK_EQ(waitpid(child, &status, 0), child);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != way->signal) {
			fprintf(stderr, "%s, set %s threads, in %s: status %#x\n", way->what,
				i & 1 ? "before" : "after", i >> 1 & 1 ? "main" : "a thread",
				status);
			return 1;
		}
	}
	return 0;
}
