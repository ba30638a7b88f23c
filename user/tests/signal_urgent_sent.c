/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Each SIGURG that another process sends is handled, while threads compute that a timer of CPU time
 * interrupts. Here threads are preempted by that signal, too.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { TURNS = 1500, THREADS = 3 };

static int *handled;
static int done;

static void on_urgent(int signal)
{
	(void)signal;
	__atomic_add_fetch(handled, 1, __ATOMIC_SEQ_CST);
}

static void on_timer(int signal)
{
	(void)signal;
}

static void *computes(void *arg)
{
	while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST))
		;
	return arg;
}

/* One after the other: two at once would be one. */
static int send_all(void)
{
	for (int i = 0; i < TURNS; i++) {
		CHECK_EQ(kill(getppid(), SIGURG), 0);
		await_value(handled, i + 1);
	}
	return 0;
}

int main(void)
{
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } };
	pthread_t threads[THREADS];
	int status;

	handled = mmap(NULL, sizeof *handled, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	CHECK(handled != MAP_FAILED);
	CHECK(signal(SIGURG, on_urgent) != SIG_ERR);
	CHECK(signal(SIGPROF, on_timer) != SIG_ERR);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(computes, NULL);
	CHECK_EQ(setitimer(ITIMER_PROF, &every, NULL), 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(send_all());
	while (waitpid(child, &status, 0) < 0)
		CHECK_EQ(errno, EINTR);
	CHECK_EQ(status, 0);
	set_value(&done, 1);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	return 0;
}
