/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * SIGPIPE and SIGXFSZ that are pending for the process end a sigpause() that lets them through, as
 * BSD and as X/Open have it, and a sigsuspend(): in the main thread, in one that only the kernel
 * can make, and in any other, whether they come before or meanwhile. The mask is the one of before
 * then.
 */
#define _GNU_SOURCE
#include "own_stack.h"
#include "pending.h"
#include "send.h"
#include "unseen.h"
#include <sys/wait.h>

int __xpg_sigpause(int number);
int __sigpause(int signal_or_mask, int is_signal);
#undef sigpause
extern int bsd_sigpause(int mask) __asm__("sigpause");

enum { SUSPEND, BSD, XPG, EITHER_MASK, EITHER_SIGNAL, WAYS };
enum { MAIN, KERNEL_THREAD, THREAD, WAITERS };
enum { BUSY = 2 };

static sigset_t both;
static int stop, handled, ready;
static pthread_t handled_by;
static siginfo_t told;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)context;
	told = *info;
	handled_by = pthread_self();
	set_value(&handled, number);
}

static pid_t send(int number, int from_child)
{
	if (!from_child) {
		CHECK_EQ(kill(getpid(), number), 0);
		return getpid();
	}
	return send_from_child(number);
}

static void *computes(void *arg)
{
	while (!*(volatile int *)&stop)
		;
	return arg;
}

/* All but this one. */
static sigset_t but(int number)
{
	sigset_t set = both;
	sigdelset(&set, number);
	return set;
}

static void pause_by(int way, int number)
{
	sigset_t set = but(number);
	int word = 1 << (SIGPIPE - 1) | 1 << (SIGXFSZ - 1);
	word &= ~(1 << (number - 1));
	handled = 0;
	switch (way) {
	case SUSPEND:
		CHECK_ERRNO(sigsuspend(&set), EINTR);
		break;
	case BSD:
		CHECK_ERRNO(bsd_sigpause(word), EINTR);
		break;
	case XPG:
		CHECK_ERRNO(__xpg_sigpause(number), EINTR);
		break;
	case EITHER_MASK:
		CHECK_ERRNO(__sigpause(word, 0), EINTR);
		break;
	case EITHER_SIGNAL:
		CHECK_ERRNO(__sigpause(number, 1), EINTR);
		break;
	}
	CHECK_EQ(handled, number);
	CHECK(pthread_equal(handled_by, pthread_self()));
	CHECK(!is_pending(number));
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	CHECK(sigismember(&set, SIGPIPE) && sigismember(&set, SIGXFSZ));
}

struct wish {
	int way, number, from_child;
};

static void *sends(void *arg)
{
	struct wish *wish = arg;
	await_value(&ready, 1);
	send(wish->number, wish->from_child);
	return NULL;
}

static void *pauses(void *arg)
{
	struct wish *wish = arg;
	/* It is there already. */
	pid_t sender = send(wish->number, wish->from_child);
	long end = now_ms() + 20000;
	while (!is_pending(wish->number)) {
		CHECK(now_ms() < end);
		sleep_ms(1);
	}
	pause_by(wish->way, wish->number);
	CHECK_EQ(told.si_code, SI_USER);
	CHECK_EQ(told.si_pid, sender);
	/* It is about to come. */
	set_value(&ready, 0);
	pthread_t thread = start_thread(sends, wish);
	set_value(&ready, 1);
	pause_by(wish->way, wish->number);
	CHECK_EQ(told.si_code, SI_USER);
	join_thread(thread);
	return NULL;
}

int main(void)
{
	pthread_t busy[BUSY];
	sigemptyset(&both);
	sigaddset(&both, SIGPIPE);
	sigaddset(&both, SIGXFSZ);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	CHECK_EQ(sigaction(SIGPIPE, &action, NULL), 0);
	CHECK_EQ(sigaction(SIGXFSZ, &action, NULL), 0);
	for (int index = 0; index < BUSY; index++)
		busy[index] = start_thread(computes, NULL);
	for (int waiter = 0; waiter < WAITERS; waiter++)
		for (int way = 0; way < WAYS; way++)
			for (int which = 0; which < 4; which++) {
				struct wish wish = { way, which & 1 ? SIGXFSZ : SIGPIPE, which >> 1 };
				if (waiter == MAIN)
					pauses(&wish);
				else if (waiter == THREAD)
					join_thread(start_thread(pauses, &wish));
				else
					join_thread(start_on_own_stack(pauses, &wish));
			}
	/* What is no signal. */
	CHECK_ERRNO(__xpg_sigpause(0), EINVAL);
	CHECK_ERRNO(__xpg_sigpause(65), EINVAL);
	stop = 1;
	for (int index = 0; index < BUSY; index++)
		join_thread(busy[index]);
	return 0;
}
