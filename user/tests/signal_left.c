/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the main thread blocks is known after handlers that are called in each other's beginnings,
 * and after one that was left by a jump which keeps the mask: what is sent to the process then
 * comes to who lets it through. And a handler that is taken away just when it is to be called is
 * not called.
 */
#define _GNU_SOURCE
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { TIMES = 3, TURNS = 3000 };

static int came, on_main, is_over;
static pthread_t main_thread;
static jmp_buf before;

static void on_signal(int signal)
{
	(void)signal;
	add_value(&came, 1);
}

static void jumps_on_main(int signal)
{
	(void)signal;
	if (!pthread_equal(pthread_self(), main_thread)) {
		add_value(&came, 1);
		return;
	}
	on_main++;
	longjmp(before, 1);
}

static void block_all(void)
{
	sigset_t all;
	sigfillset(&all);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
}

static void *waits_blocked(void *unused)
{
	block_all();
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		sleep_ms(1);
	return unused;
}

static void *waits(void *unused)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		sleep_ms(1);
	return unused;
}

static void finish(pthread_t thread)
{
	set_value(&is_over, 1);
	join_thread(thread);
	set_value(&is_over, 0);
	set_value(&came, 0);
}

static void wait_for(pid_t child)
{
	int status;
	while (waitpid(child, &status, 0) < 0)
		CHECK_EQ(errno, EINTR);
	CHECK_EQ(status, 0);
}

/* Two are pending when the main thread goes on, the first one without a handler. */
static void come_together(void)
{
	pthread_t thread = start_thread(waits_blocked, NULL);
	CHECK(signal(SIGWINCH, on_signal) != SIG_ERR);
	pid_t parent = getpid(), child = fork();
	if (child == 0) {
		CHECK_EQ(kill(parent, SIGSTOP), 0);
		sleep_ms(50);
		CHECK_EQ(syscall(SYS_tgkill, parent, parent, SIGURG), 0);
		CHECK_EQ(syscall(SYS_tgkill, parent, parent, SIGWINCH), 0);
		CHECK_EQ(kill(parent, SIGCONT), 0);
		_exit(0);
	}
	wait_for(child);
	await_value(&came, 1);
	CHECK(signal(SIGURG, on_signal) == SIG_DFL);
	for (int i = 2; i < 2 + TIMES; i++) {
		CHECK_EQ(kill(getpid(), SIGURG), 0);
		await_value(&came, i);
	}
	CHECK(signal(SIGURG, SIG_DFL) == on_signal);
	finish(thread);
}

static void are_left_by_jump(int number)
{
	pthread_t thread = start_thread(waits, NULL);
	sigset_t mask;
	on_main = 0;
	CHECK(signal(number, jumps_on_main) != SIG_ERR);
	if (setjmp(before) == 0)
		CHECK_EQ(pthread_kill(main_thread, number), 0);
	CHECK_EQ(on_main, 1);
	for (int i = 1; i <= TIMES; i++) {
		pid_t parent = getpid(), child = fork();
		if (child == 0)
			_exit(kill(parent, number) != 0);
		wait_for(child);
		await_value(&came, i);
	}
	CHECK_EQ(on_main, 1);
	CHECK(signal(number, SIG_IGN) == jumps_on_main);
	sigemptyset(&mask);
	sigaddset(&mask, number);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &mask, NULL), 0);
	finish(thread);
}

static void *takes_away(void *number)
{
	int signal_number = (int)(intptr_t)number;
	for (int i = 0; i < TURNS; i++) {
		CHECK(signal(signal_number, SIG_IGN) != SIG_ERR);
		CHECK(signal(signal_number, on_signal) != SIG_ERR);
	}
	set_value(&is_over, 1);
	return NULL;
}

/* The main thread is sent signals meanwhile. */
static void is_taken_away(int number)
{
	CHECK(signal(number, on_signal) != SIG_ERR);
	pthread_t thread = start_thread(takes_away, (void *)(intptr_t)number);
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		CHECK_EQ(pthread_kill(main_thread, number), 0);
	CHECK(signal(number, SIG_DFL) != SIG_ERR);
	finish(thread);
}

int main(void)
{
	main_thread = pthread_self();
	come_together();
	are_left_by_jump(SIGURG);
	are_left_by_jump(SIGUSR1);
	are_left_by_jump(SIGPIPE);
	is_taken_away(SIGURG);
	is_taken_away(SIGUSR1);
	is_taken_away(SIGPIPE);
	return 0;
}
