/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * An action that is set by the number of the system call is the action: the C library's function
 * tells it, and the other way round; its handler runs with the thread's own mask, and may wait,
 * that of a fault and of SIGURG, by which heddle preempts threads, too.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { BYTES = 8, RESTORER = 0x04000000, FAULTERS = 2, SPINNERS = 2, FAULTS = 10, LENGTH = 2 };

struct numbered {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long blocked;
};

/* What a handler returns to. */
void restorer(void);
__asm__(".globl restorer\n"
	"restorer:\n"
	"	mov $15, %eax\n"
	"	syscall\n");

static int null, came, mended, is_over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static long by_number(int signal, const void *action, void *old)
{
	return syscall(SYS_rt_sigaction, signal, action, old, BYTES);
}

static int blocks(int signal)
{
	sigset_t now;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, signal);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	(void)context;
	CHECK_EQ(info->si_signo, signal);
	CHECK(blocks(signal));
	CHECK(blocks(SIGUSR2));
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	sleep_ms(1);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	add_value(&came, 1);
}

/* Waits for the lock of whoever handles one at the same time. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	CHECK_EQ(info->si_addr, (void *)16);
	for (long end = now_ms() + 4; now_ms() < end;)
		CHECK_EQ(write(null, "x", 1), 1);
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	sleep_ms(1);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += LENGTH;
	add_value(&mended, 1);
}

static void *faults(void *unused)
{
	for (int i = 0; i < FAULTS; i++) {
		/* So many bytes. */
		__asm__ volatile("movb (%%rax), %%cl" : : "a"(16L) : "rcx");
		CHECK(!blocks(SIGSEGV));
		sleep_ms(1);
	}
	return unused;
}

static void *spins(void *unused)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		CHECK_EQ(write(null, "x", 1), 1);
	CHECK(!blocks(SIGSEGV));
	return unused;
}

static void *raises(void *number)
{
	int signal = (int)(intptr_t)number, before = __atomic_load_n(&came, __ATOMIC_SEQ_CST);
	CHECK_EQ(raise(signal), 0);
	CHECK_EQ(__atomic_load_n(&came, __ATOMIC_SEQ_CST), before + 1);
	CHECK(!blocks(signal));
	CHECK(!blocks(SIGUSR2));
	return NULL;
}

static struct numbered action_with(void (*handler)(int, siginfo_t *, void *))
{
	struct numbered action = { handler, SA_SIGINFO | RESTORER, restorer,
				   1ul << (SIGUSR2 - 1) };
	return action;
}

static void set_and_tell(int number)
{
	struct numbered wanted = action_with(on_signal), told = { 0 };
	struct sigaction known;

	CHECK_EQ(by_number(number, &wanted, NULL), 0);
	CHECK_EQ(sigaction(number, NULL, &known), 0);
	CHECK(known.sa_sigaction == on_signal && known.sa_flags & SA_SIGINFO);
	CHECK(sigismember(&known.sa_mask, SIGUSR2) && !sigismember(&known.sa_mask, SIGUSR1));
	join_thread(start_thread(raises, (void *)(intptr_t)number));
	raises((void *)(intptr_t)number);

	/* What was read is set again. */
	CHECK_EQ(by_number(number, NULL, &told), 0);
	CHECK(told.handler == on_signal);
	CHECK_EQ(told.flags, (unsigned long)(SA_SIGINFO | RESTORER));
	CHECK_EQ(told.blocked, wanted.blocked);
	CHECK(told.restorer != NULL);
	CHECK(signal(number, SIG_IGN) == (void (*)(int))(void *)on_signal);
	CHECK_EQ(raise(number), 0);
	CHECK_EQ(by_number(number, &told, &wanted), 0);
	CHECK((void (*)(int))(void *)wanted.handler == SIG_IGN);
	join_thread(start_thread(raises, (void *)(intptr_t)number));
}

static void refuse(void)
{
	struct numbered action = action_with(on_signal);
	CHECK_ERRNO(by_number(0, &action, NULL), EINVAL);
	CHECK_ERRNO(by_number(65, &action, NULL), EINVAL);
	CHECK_ERRNO(by_number(SIGKILL, &action, NULL), EINVAL);
	CHECK_ERRNO(by_number(SIGUSR1, (void *)8, NULL), EFAULT);
	CHECK_ERRNO(by_number(SIGUSR1, NULL, (void *)8), EFAULT);
	CHECK_ERRNO(syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 4), EINVAL);
}

int main(void)
{
	pthread_t spinners[SPINNERS], faulters[FAULTERS];
	struct numbered action = action_with(on_fault);

	null = open("/dev/null", O_WRONLY);
	CHECK(null >= 0);
	/* Before the first thread, and after. */
	for (int i = 0; i < 2; i++) {
		refuse();
		set_and_tell(SIGUSR1);
		set_and_tell(SIGURG);
		set_and_tell(SIGRTMIN + 1);
	}
	CHECK_EQ(by_number(SIGSEGV, &action, NULL), 0);
	for (int i = 0; i < SPINNERS; i++)
		spinners[i] = start_thread(spins, NULL);
	for (int i = 0; i < FAULTERS; i++)
		faulters[i] = start_thread(faults, NULL);
	for (int i = 0; i < FAULTERS; i++)
		join_thread(faulters[i]);
	CHECK_EQ(mended, FAULTERS * FAULTS);
	set_value(&is_over, 1);
	for (int i = 0; i < SPINNERS; i++)
		join_thread(spinners[i]);
	return 0;
}
