/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What programs older than POSIX threads call for signals: System V's sigset and its kin, BSD's
 * sigblock and its kin. They change the calling thread's mask and the process's actions, also
 * those of faults.
 */
#define _GNU_SOURCE
#include "check.h"
#include <setjmp.h>
#include <signal.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

int siggetmask(void);
int __xpg_sigpause(int number);

static __thread sigjmp_buf back;
static __thread volatile int handled;

static int is_blocked(int number)
{
	sigset_t set;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	return sigismember(&set, number);
}

static void jumps(int number)
{
	(void)number;
	handled++;
	siglongjmp(back, 1);
}

static void counts(int number)
{
	(void)number;
	handled++;
}

static struct sigaction action_of(int number)
{
	struct sigaction action;
	CHECK_EQ(sigaction(number, NULL, &action), 0);
	return action;
}

static void fault(void)
{
	handled = 0;
	if (sigsetjmp(back, 1) == 0)
		*(volatile char *)8 = 1;
	CHECK_EQ(handled, 1);
	CHECK(!is_blocked(SIGSEGV));
}

static void of_system_v(void)
{
	CHECK(sigset(SIGSEGV, jumps) == SIG_DFL);
	CHECK(action_of(SIGSEGV).sa_handler == jumps);
	fault();
	CHECK(sigset(SIGSEGV, SIG_HOLD) == jumps);
	CHECK(is_blocked(SIGSEGV));
	CHECK(sigset(SIGSEGV, SIG_DFL) == SIG_HOLD);
	CHECK(!is_blocked(SIGSEGV));
	CHECK_EQ(sigignore(SIGSEGV), 0);
	CHECK(action_of(SIGSEGV).sa_handler == SIG_IGN);
	CHECK(sigset(SIGSEGV, SIG_DFL) == SIG_IGN);

	CHECK(sigset(SIGUSR2, counts) == SIG_DFL);
	handled = 0;
	CHECK_EQ(sighold(SIGUSR2), 0);
	CHECK(is_blocked(SIGUSR2));
	CHECK_EQ(pthread_kill(pthread_self(), SIGUSR2), 0);
	CHECK_EQ(handled, 0);
	CHECK_EQ(sigrelse(SIGUSR2), 0);
	CHECK_EQ(handled, 1);
	CHECK(!is_blocked(SIGUSR2));
	CHECK(sigset(SIGUSR2, SIG_DFL) == counts);
	CHECK_ERRNO(sighold(100), EINVAL);
	CHECK_ERRNO(sigrelse(0), EINVAL);
	CHECK(sigset(-1, SIG_DFL) == SIG_ERR);
}

static void of_bsd(void)
{
	CHECK_EQ(sigblock(sigmask(SIGUSR1)) & sigmask(SIGUSR1), 0);
	CHECK(is_blocked(SIGUSR1));
	CHECK(siggetmask() & sigmask(SIGUSR1));
	CHECK(sigsetmask(0) & sigmask(SIGUSR1));
	CHECK(!is_blocked(SIGUSR1));

	CHECK(signal(SIGSEGV, jumps) == SIG_DFL);
	CHECK_EQ(siginterrupt(SIGSEGV, 1), 0);
	CHECK(!(action_of(SIGSEGV).sa_flags & SA_RESTART));
	CHECK_EQ(siginterrupt(SIGSEGV, 0), 0);
	CHECK(action_of(SIGSEGV).sa_flags & SA_RESTART);
	CHECK(action_of(SIGSEGV).sa_handler == jumps);
	fault();
	CHECK(signal(SIGSEGV, SIG_DFL) == jumps);
}

static void *sends(void *thread)
{
	sleep_ms(20);
	CHECK_EQ(pthread_kill(*(pthread_t *)thread, SIGUSR2), 0);
	return thread;
}

/* The signal is let through for the time of the call alone. */
static void pauses(void)
{
	pthread_t own = pthread_self();
	CHECK(sigset(SIGUSR2, counts) == SIG_DFL);
	CHECK_EQ(sighold(SIGUSR2), 0);
	handled = 0;
	pthread_t sender = start_thread(sends, &own);
	CHECK_ERRNO(__xpg_sigpause(SIGUSR2), EINTR);
	CHECK_EQ(handled, 1);
	CHECK(is_blocked(SIGUSR2));
	join_thread(sender);
	CHECK(sigset(SIGUSR2, SIG_DFL) == SIG_HOLD);
	CHECK_ERRNO(__xpg_sigpause(0), EINVAL);
}

static void *run(void *arg)
{
	for (int i = 0; i < 5; i++) {
		of_system_v();
		of_bsd();
		pauses();
	}
	return arg;
}

int main(void)
{
	run(NULL);
	join_thread(start_thread(run, NULL));
	run(NULL);
	join_thread(start_thread(run, NULL));
	return 0;
}
