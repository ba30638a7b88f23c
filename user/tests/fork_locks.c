/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A child finds no lock held by a thread that it does not have: while others are made and end,
 * wait, name each other and make timers, threads fork, and their children do the same with what a
 * child may do.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { FORKS = 100, WAITERS = 3, OWN_STACK_BYTES = 256 << 10 };

static int is_over;
static pthread_t named[2];
static void *stacks[WAITERS];

/* On the caller's own stack, so that it is a kernel thread. */
static pthread_t start_kernel_thread(void *(*start)(void *), void *arg, void *stack)
{
	pthread_attr_t attr;
	pthread_t thread;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstack(&attr, stack, OWN_STACK_BYTES), 0);
	CHECK_EQ(pthread_create(&thread, &attr, start, arg), 0);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	return thread;
}

static void *stack_of_own(void)
{
	void *stack = mmap(NULL, OWN_STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(stack != MAP_FAILED);
	return stack;
}

static void *waits(void *arg)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec until = moment(CLOCK_REALTIME, 1);
	pthread_mutex_lock(&mutex);
	while (pthread_cond_timedwait(&cond, &mutex, &until) == 0) {
	}
	return arg;
}

static void make_timer(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_NONE };
	timer_t timer;
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	CHECK_EQ(timer_delete(timer), 0);
}

/* In the parent: makes, ends, names, signals, again and again. */
static void *makes_threads(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
		pthread_t threads[WAITERS];
		for (int i = 0; i < WAITERS; i++)
			threads[i] = start_thread(waits, arg);
		for (int i = 0; i < WAITERS; i++)
			join_thread(threads[i]);
	}
	return arg;
}

static void *makes_kernel_threads(void *arg)
{
	void *stack = stack_of_own();
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST))
		join_thread(start_kernel_thread(waits, arg, stack));
	return arg;
}

static void *asks(void *arg)
{
	char name[16];
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
		for (int i = 0; i < 100; i++) {
			pthread_kill(named[i & 1], SIGUSR1);
			pthread_getname_np(named[i & 1], name, sizeof(name));
		}
		make_timer();
		sched_yield();
	}
	return arg;
}

static void use_all(void)
{
	pthread_t threads[WAITERS];
	pthread_attr_t attr;
	char name[16];
	for (int i = 0; i < WAITERS; i++)
		threads[i] = start_kernel_thread(waits, NULL, stacks[i]);
	waits(NULL);
	CHECK_EQ(pthread_setname_np(pthread_self(), "child"), 0);
	CHECK_EQ(pthread_getname_np(pthread_self(), name, sizeof(name)), 0);
	CHECK_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	CHECK_EQ(raise(SIGUSR1), 0);
	make_timer();
	for (int i = 0; i < WAITERS; i++)
		join_thread(threads[i]);
}

static void *forks(void *arg)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			alarm(40);
			use_all();
			_exit(0);
		}
		int status;
		while (waitpid(child, &status, 0) < 0)
			CHECK_EQ(errno, EINTR);
		if (status != 0) {
			fprintf(stderr, "child %d of %s: status %x\n", i,
				arg ? "a full thread" : "main", (unsigned)status);
			_exit(1);
		}
	}
	return arg;
}

static void nothing(int number)
{
	(void)number;
}

int main(void)
{
	struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	for (int i = 0; i < WAITERS; i++)
		stacks[i] = stack_of_own();
	named[0] = start_thread(forks, &is_over);
	named[1] = pthread_self();
	pthread_t others[] = {
		start_thread(makes_threads, NULL),
		start_thread(makes_kernel_threads, NULL),
		start_thread(asks, NULL),
	};
	forks(NULL);
	set_value(&is_over, 1);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		join_thread(others[i]);
	/* Not before: it is asked about as long as they run. */
	join_thread(named[0]);
	return 0;
}
