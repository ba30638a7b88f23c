/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A child that a thread has forked waits: meanwhile none of its parent's other threads runs in it,
 * and none of their wakes goes there. And it has the mask of the thread that forked it, also if
 * that had to wait for the program's handlers of fork.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { SLEEPERS = 4, FORKERS = 4, ROUNDS = 2, FORKS = 30, BYTES = 60 };

static pid_t parent;
static int *ran_in_child;
static int pipe_ends[2], received, is_over;

static void check_end(pid_t child)
{
	int status;
	CHECK(child > 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static void *sleeps(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
		usleep(1000);
		if (getpid() != parent)
			__atomic_fetch_add(ran_in_child, 1, __ATOMIC_SEQ_CST);
	}
	return arg;
}

static void *receives(void *arg)
{
	char byte;
	while (read(pipe_ends[0], &byte, 1) == 1)
		__atomic_fetch_add(&received, 1, __ATOMIC_SEQ_CST);
	return arg;
}

static void wait_for_nothing(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	pthread_mutex_lock(&mutex);
	while (pthread_cond_timedwait(&cond, &mutex, &until) == 0) {
	}
}

static void *forks(void *arg)
{
	pid_t child = fork();
	if (child == 0) {
		wait_for_nothing();
		_exit(0);
	}
	for (int i = 0; i < BYTES; i++) {
		int before = __atomic_load_n(&received, __ATOMIC_SEQ_CST);
		CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
		for (int ms = 0; __atomic_load_n(&received, __ATOMIC_SEQ_CST) == before; ms++) {
			CHECK(ms < 40000);
			usleep(1000);
		}
		usleep(10000);
	}
	check_end(child);
	return arg;
}

static void waits_first(void)
{
	usleep(500);
}

static void *forks_masked(void *arg)
{
	sigset_t own, childs;
	sigemptyset(&own);
	sigaddset(&own, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &own, NULL), 0);
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();
		if (child == 0) {
			int is_right = sigprocmask(SIG_BLOCK, NULL, &childs) == 0;
			for (int signal = 1; signal < SIGRTMIN; signal++)
				is_right &= sigismember(&childs, signal) == (signal == SIGUSR1);
			_exit(!is_right);
		}
		check_end(child);
	}
	return arg;
}

int main(void)
{
	pthread_t sleepers[SLEEPERS], forkers[FORKERS];
	parent = getpid();
	ran_in_child = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);
	CHECK(ran_in_child != MAP_FAILED);
	CHECK_EQ(pipe(pipe_ends), 0);
	for (int i = 0; i < SLEEPERS; i++)
		sleepers[i] = start_thread(sleeps, NULL);
	pthread_t receiver = start_thread(receives, NULL);
	for (int i = 0; i < ROUNDS; i++)
		join_thread(start_thread(forks, NULL));
	CHECK_EQ(*ran_in_child, 0);
	CHECK_EQ(pthread_atfork(waits_first, NULL, NULL), 0);
	for (int i = 0; i < FORKERS; i++)
		forkers[i] = start_thread(forks_masked, NULL);
	for (int i = 0; i < FORKERS; i++)
		join_thread(forkers[i]);
	set_value(&is_over, 1);
	for (int i = 0; i < SLEEPERS; i++)
		join_thread(sleepers[i]);
	close(pipe_ends[1]);
	join_thread(receiver);
	return 0;
}
