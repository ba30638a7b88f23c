/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * SIGURG is sent to the process, which the main thread blocks: its handler computes, writes and
 * waits for a lock, in the middle of threads that compute and of handlers of faults that do the
 * same. Here threads are preempted by that signal, too.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <ucontext.h>

enum { SPINNERS = 2, FAULTERS = 2, FAULTS = 8, BYTES = 2 };

static int null, handled, mended, is_over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int is_in_handler;

static void compute_ms(long ms)
{
	for (long end = now_ms() + ms; now_ms() < end;)
		for (volatile int i = 0; i < 1000; i++)
			;
}

static void write_some(int times)
{
	for (int i = 0; i < times; i++)
		CHECK_EQ(write(null, "x", 1), 1);
}

static int blocks_it(void)
{
	sigset_t now;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, SIGURG);
}

static void on_urgent(int signal)
{
	CHECK_EQ(signal, SIGURG);
	CHECK(blocks_it());
	CHECK_EQ(is_in_handler++, 0);
	write_some(100);
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	compute_ms(4);
	sleep_ms(1);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	write_some(100);
	CHECK_EQ(is_in_handler--, 1);
	add_value(&handled, 1);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	CHECK_EQ(info->si_addr, (void *)16);
	compute_ms(5);
	write_some(200);
	compute_ms(3);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += BYTES;
	add_value(&mended, 1);
}

static void *spins(void *unused)
{
	struct timespec now;
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
		CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
		write_some(1);
		CHECK(!blocks_it());
	}
	return unused;
}

static void *faults(void *unused)
{
	for (int i = 0; i < FAULTS; i++) {
		/* So many bytes. */
		__asm__ volatile("movb (%%rax), %%cl" : : "a"(16L) : "rcx");
		sleep_ms(3);
		CHECK(!blocks_it());
	}
	return unused;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	pthread_t spinners[SPINNERS], faulters[FAULTERS];
	sigset_t urgent;

	null = open("/dev/null", O_WRONLY);
	CHECK(null >= 0);
	CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
	CHECK(signal(SIGURG, on_urgent) != SIG_ERR);
	for (int i = 0; i < SPINNERS; i++)
		spinners[i] = start_thread(spins, NULL);
	for (int i = 0; i < FAULTERS; i++)
		faulters[i] = start_thread(faults, NULL);
	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &urgent, NULL), 0);
	while (__atomic_load_n(&mended, __ATOMIC_SEQ_CST) < FAULTERS * FAULTS) {
		CHECK_EQ(kill(getpid(), SIGURG), 0);
		sleep_ms(8);
	}
	for (int i = 0; i < FAULTERS; i++)
		join_thread(faulters[i]);
	set_value(&is_over, 1);
	for (int i = 0; i < SPINNERS; i++)
		join_thread(spinners[i]);
	CHECK(handled > 0);
	return 0;
}
