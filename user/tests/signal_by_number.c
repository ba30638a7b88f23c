/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread's mask, alternate stack and end by the numbers of the system calls: they are its own,
 * and nobody else's.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { OTHERS = 6, BYTES = 8 };
static int step, came;
static char stack[1 << 16];

static int load_value(int *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void on_signal(int signal)
{
	char here;
	CHECK_EQ(signal, SIGUSR1);
	CHECK(&here > stack && &here < stack + sizeof stack);
	set_value(&came, 1);
}

static uint64_t mask_of_caller(void)
{
	uint64_t mask = ~0ull;
	CHECK_EQ(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, BYTES), 0);
	sigset_t same;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &same), 0);
	CHECK_EQ(memcmp(&same, &mask, BYTES), 0);
	return mask;
}

static void *others(void *unused)
{
	stack_t it;
	uint64_t mask = mask_of_caller();
	while (load_value(&step) == 0) {
		sched_yield();
		CHECK_EQ(mask_of_caller(), mask);
		CHECK_EQ(sigaltstack(NULL, &it), 0);
		CHECK(it.ss_flags & SS_DISABLE);
	}
	return unused;
}

static void *by_number(void *unused)
{
	uint64_t usr1 = 1ull << (SIGUSR1 - 1), before = mask_of_caller(), old[2] = { 0, 77 };
	CHECK_EQ(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &usr1, old, BYTES), 0);
	CHECK_EQ(old[0], before);
	CHECK_EQ(old[1], 77);
	CHECK_EQ(mask_of_caller(), before | usr1);
	CHECK_ERRNO(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &usr1, NULL, 16), EINVAL);
	CHECK_ERRNO(syscall(SYS_rt_sigprocmask, 55, &usr1, NULL, BYTES), EINVAL);
	CHECK_ERRNO(syscall(SYS_rt_sigprocmask, SIG_BLOCK, (void *)8, NULL, BYTES), EFAULT);

	stack_t mine = { stack, 0, sizeof stack }, got;
	CHECK_EQ(syscall(SYS_sigaltstack, &mine, NULL), 0);
	CHECK_EQ(sigaltstack(NULL, &got), 0);
	CHECK(got.ss_sp == stack && got.ss_size == sizeof stack);
	CHECK_ERRNO(syscall(SYS_sigaltstack, (void *)8, NULL), EFAULT);
	CHECK_ERRNO(syscall(SYS_sigaltstack, NULL, (void *)8), EFAULT);
	CHECK_EQ(syscall(SYS_sigaltstack, NULL, &got), 0);
	CHECK(got.ss_sp == stack && got.ss_size == sizeof stack);

	CHECK_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	for (int i = 0; i < 20; i++)
		sched_yield();
	CHECK_EQ(load_value(&came), 0);
	CHECK_EQ(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, BYTES), 0);
	CHECK_EQ(load_value(&came), 1);
	mine.ss_flags = SS_DISABLE;
	CHECK_EQ(syscall(SYS_sigaltstack, &mine, NULL), 0);

	/* A child's end is its own. */
	pid_t child = fork();
	if (child == 0)
		syscall(SYS_exit, 5);
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
	child = vfork();
	if (child == 0)
		syscall(SYS_exit, 6);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 6);

	syscall(SYS_exit, 0);
	return unused;
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	pthread_t threads[OTHERS];
	for (int i = 0; i < OTHERS; i++)
		threads[i] = start_thread(others, NULL);
	for (int i = 0; i < 20; i++) {
		set_value(&came, 0);
		CHECK_EQ(pthread_join(start_thread(by_number, NULL), NULL), 0);
	}
	set_value(&step, 1);
	for (int i = 0; i < OTHERS; i++)
		join_thread(threads[i]);
	return 0;
}
