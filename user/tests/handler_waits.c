/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Handlers that wait, on the main thread, wherever that was interrupted: as collectors stop
 * threads, which post a semaphore and stay in sigsuspend until they may go on; and for a lock, by a
 * futex, as profilers' spin locks do, while the thread wakes others or waits itself.
 */
#define _GNU_SOURCE
#include "check.h"
#include <linux/futex.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>

enum { STOPS = 1000, JOINS = 200 };

static sem_t stopped;
static int done, lock;
static volatile long handled;
static pthread_t main_thread;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static int is_done(void)
{
	return __atomic_load_n(&done, __ATOMIC_SEQ_CST);
}

static void on_resume(int signal)
{
	(void)signal;
}

static void on_stop(int signal)
{
	sigset_t all;

	(void)signal;
	sigfillset(&all);
	sigdelset(&all, SIGUSR2);
	sem_post(&stopped);
	sigsuspend(&all);
}

static void *collects(void *arg)
{
	for (int i = 0; i < STOPS; i++) {
		CHECK_EQ(pthread_kill(main_thread, SIGUSR1), 0);
		while (sem_wait(&stopped) != 0)
			CHECK_EQ(errno, EINTR);
		CHECK_EQ(pthread_kill(main_thread, SIGUSR2), 0);
		if (i % 8 == 0)
			sleep_ms(1);
	}
	set_value(&done, 1);
	return arg;
}

static void *waits(void *arg)
{
	pthread_mutex_lock(&mutex);
	while (!is_done())
		pthread_cond_wait(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void stops_while_it_wakes(void)
{
	CHECK_EQ(sem_init(&stopped, 0, 0), 0);
	pthread_t waiter = start_thread(waits, NULL);
	pthread_t collector = start_thread(collects, NULL);
	while (!is_done())
		pthread_cond_signal(&cond);
	pthread_mutex_lock(&mutex);
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&mutex);
	join_thread(collector);
	join_thread(waiter);
}

static void locks(int signal)
{
	int state = 0;

	(void)signal;
	if (!__atomic_compare_exchange_n(&lock, &state, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		while (__atomic_exchange_n(&lock, 2, __ATOMIC_SEQ_CST) != 0)
			syscall(SYS_futex, &lock, FUTEX_WAIT_PRIVATE, 2, NULL);
	for (volatile int i = 0; i < 1000; i++)
		;
	handled++;
	if (__atomic_exchange_n(&lock, 0, __ATOMIC_SEQ_CST) == 2)
		syscall(SYS_futex, &lock, FUTEX_WAKE_PRIVATE, 1);
}

static void *interrupts(void *arg)
{
	for (int i = 0; !is_done(); i++) {
		CHECK_EQ(pthread_kill(main_thread, SIGALRM), 0);
		locks(0);
		if (i % 8 == 0)
			sleep_ms(1);
	}
	return arg;
}

static void *computes(void *arg)
{
	for (volatile int i = 0; i < 200000; i++)
		;
	return arg;
}

static void waits_while_it_waits(void)
{
	set_value(&done, 0);
	pthread_t other = start_thread(interrupts, NULL);
	for (int i = 0; i < JOINS; i++)
		join_thread(start_thread(computes, NULL));
	set_value(&done, 1);
	join_thread(other);
	CHECK(handled > JOINS / 10);
}

/* What was set is told as it was set, in whatever way. */
static void tells_actions(void)
{
	struct sigaction told, action = { .sa_handler = locks, .sa_flags = SA_RESETHAND };
	CHECK_EQ(sigaction(SIGALRM, NULL, &told), 0);
	CHECK(told.sa_handler == locks && !(told.sa_flags & SA_SIGINFO));
	CHECK(signal(SIGALRM, on_resume) == locks);
	CHECK_EQ(siginterrupt(SIGALRM, 1), 0);
	CHECK_EQ(sigaction(SIGALRM, NULL, &told), 0);
	CHECK(told.sa_handler == on_resume && !(told.sa_flags & SA_RESTART));
	CHECK(sigismember(&told.sa_mask, SIGALRM) == 1);
	CHECK(signal(SIGALRM, on_resume) == on_resume);
	CHECK_EQ(sigaction(SIGALRM, &action, &told), 0);
	CHECK(!(told.sa_flags & SA_RESTART));
	long before = handled;
	CHECK_EQ(raise(SIGALRM), 0);
	CHECK_EQ(handled, before + 1);
	CHECK_EQ(sigaction(SIGALRM, NULL, &told), 0);
	CHECK(told.sa_handler == SIG_DFL);
	CHECK(signal(SIGALRM, SIG_ERR) == SIG_ERR && errno == EINVAL);
	CHECK(signal(SIGKILL, on_resume) == SIG_ERR && errno == EINVAL);
	CHECK(signal(0, on_resume) == SIG_ERR && errno == EINVAL);
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
	sigfillset(&action.sa_mask);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	action.sa_handler = on_resume;
	CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
	action.sa_handler = locks;
	CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
	main_thread = pthread_self();
	stops_while_it_wakes();
	waits_while_it_waits();
	tells_actions();
	return 0;
}
