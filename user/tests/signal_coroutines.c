/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that do nothing but switch between two contexts, one of them with a stack of its own, are
 * stopped by a signal again and again, as collectors do it, whichever they are in.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <ucontext.h>

enum { THREADS = 3, STOPS = 40, STACK_BYTES = 64 << 10 };

static int stop;
static sem_t handled;
static _Thread_local ucontext_t outside, inside;
static _Thread_local long turns;

static void coroutine(void)
{
	for (;;) {
		turns++;
		CHECK_EQ(swapcontext(&inside, &outside), 0);
	}
}

static void *switch_over(void *arg)
{
	void *stack = malloc(STACK_BYTES);
	CHECK(stack);
	CHECK_EQ(getcontext(&inside), 0);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = STACK_BYTES;
	makecontext(&inside, coroutine, 0);
	for (long i = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		CHECK_EQ(swapcontext(&outside, &inside), 0);
		CHECK_EQ(turns, i);
	}
	free(stack);
	return arg;
}

static void on_stop(int signal)
{
	sigset_t mask;
	(void)signal;
	CHECK_EQ(sigfillset(&mask), 0);
	CHECK_EQ(sigdelset(&mask, SIGUSR2), 0);
	CHECK_EQ(sem_post(&handled), 0);
	CHECK_ERRNO(sigsuspend(&mask), EINTR);
	CHECK_EQ(sem_post(&handled), 0);
}

static void on_go(int signal)
{
	(void)signal;
}

static void send(const pthread_t *threads, int number)
{
	struct timespec until;
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_kill(threads[i], number), 0);
	CHECK_EQ(clock_gettime(CLOCK_REALTIME, &until), 0);
	until.tv_sec += 5;
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(sem_timedwait(&handled, &until), 0);
}

int main(void)
{
	pthread_t threads[THREADS];
	struct sigaction action = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
	CHECK_EQ(sigaddset(&action.sa_mask, SIGUSR2), 0);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	action.sa_handler = on_go;
	CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
	CHECK_EQ(sem_init(&handled, 0, 0), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, switch_over, NULL), 0);
	for (int i = 0; i < STOPS; i++) {
		CHECK_EQ(usleep(1000), 0);
		send(threads, SIGUSR1);
		send(threads, SIGUSR2);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	return 0;
}
