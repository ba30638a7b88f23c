/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A filter on system calls that sends SIGSYS: the handler is called in the thread that made the
 * call, and says what that returns; threads and the main thread at the same time.
 */
#define _GNU_SOURCE
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { THREADS = 10, CALLS = 50, ANSWER = 7000 };

static __thread int calls;

static void answer(int signal, siginfo_t *info, void *context)
{
	ucontext_t *user = context;

	CHECK_EQ(signal, SIGSYS);
	CHECK_EQ(info->si_syscall, SYS_acct);
	calls++;
#ifdef __x86_64__
	user->uc_mcontext.gregs[REG_RAX] = ANSWER + calls;
#else
	user->uc_mcontext.regs[0] = ANSWER + calls;
#endif
}

static void *makes_calls(void *arg)
{
	for (int i = 1; i <= CALLS; i++) {
		CHECK_EQ(syscall(SYS_acct, NULL), ANSWER + i);
		if (i % 10 == 0)
			sleep_ms(1);
	}
	CHECK_EQ(calls, CALLS);
	return arg;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = answer, .sa_flags = SA_SIGINFO };
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_acct, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, steps };
	pthread_t threads[THREADS];

	CHECK_EQ(sigaction(SIGSYS, &action, NULL), 0);
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(makes_calls, NULL);
	makes_calls(NULL);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	return 0;
}
