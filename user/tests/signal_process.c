/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A signal that is sent to the process is handled by one thread that lets it through, whatever that
 * one does; while none does it is pending, for all to see, until one unblocks it or waits for it.
 */
#define _GNU_SOURCE
#include "check.h"
#include "pending.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

/* signal_process_urgent.c has another one. */
#ifndef FIRST
#define FIRST SIGUSR1
#define SECOND SIGUSR2
#endif

enum { BUSY = 6, STORM = 60, AGAIN = 40, FORGET_MS = 1000 };

static _Thread_local volatile int handled;
static _Thread_local int may_handle;
static int ready, seen, value_seen, stop, pipe_ends[2];
static sigset_t all;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	/* Here and nowhere else. */
	CHECK(may_handle);
	if (info->si_code == SI_QUEUE)
		set_value(&value_seen, info->si_value.sival_int);
	handled++;
	add_value(&seen, 1);
}

static void unblock(void)
{
	may_handle = 1;
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &all, NULL), 0);
}

static void *computes(void *arg)
{
	unblock();
	set_value(&ready, 1);
	while (!*(volatile int *)&stop)
		;
	CHECK_EQ(handled, (int)(intptr_t)arg);
	return NULL;
}

/* Keeps its worker, so that others only wait for their turn; takes nothing. */
static void *computes_blocked(void *arg)
{
	add_value(&ready, 1);
	while (!*(volatile int *)&stop)
		;
	CHECK_EQ(handled, 0);
	return arg;
}

static void *reads(void *arg)
{
	unblock();
	set_value(&ready, 1);
	char byte;
	CHECK_ERRNO(read(pipe_ends[0], &byte, 1), EINTR);
	CHECK(handled > 0);
	set_value(&ready, 2);
	return arg;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void *waits(void *arg)
{
	unblock();
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	set_value(&ready, 1);
	while (!stop)
		CHECK_EQ(pthread_cond_wait(&cond, &mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(handled, 1);
	return arg;
}

static void *takes(void *arg)
{
	siginfo_t info;
	set_value(&ready, 1);
	CHECK_EQ(sigwaitinfo(&all, &info), SECOND);
	CHECK_EQ(info.si_code, SI_QUEUE);
	CHECK_EQ(info.si_value.sival_int, 77);
	set_value(&ready, 2);
	struct timespec soon = { 0, 20000000 };
	CHECK_ERRNO(sigtimedwait(&all, &info, &soon), EAGAIN);
	return arg;
}

static void *opens_later(void *arg)
{
	set_value(&ready, 1);
	await_value(&ready, 2);
	CHECK(is_pending(FIRST));
	unblock();
	/* Before the call returned. */
	CHECK_EQ(handled, 1);
	CHECK(!is_pending(FIRST));
	/* Nobody else is there for what it sends: before kill() returns. */
	CHECK_EQ(kill(getpid(), FIRST), 0);
	CHECK_EQ(handled, 2);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	may_handle = 0;
	CHECK_EQ(kill(getpid(), FIRST), 0);
	CHECK(is_pending(FIRST));
	unblock();
	CHECK_EQ(handled, 3);
	return arg;
}

static void *storm(void *arg)
{
	unblock();
	add_value(&ready, 1);
	while (!*(volatile int *)&stop)
		usleep(50);
	return arg;
}

/* A child sends, so it comes from outside; the value says which. */
static void send_from_child(int number, int value)
{
	pid_t parent = getpid(), child = fork();
	if (child == 0)
		_exit(sigqueue(parent, number, (union sigval){ .sival_int = value }) != 0);
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static void finish(pthread_t thread)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	set_value(&stop, 1);
	CHECK_EQ(pthread_cond_broadcast(&cond), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	join_thread(thread);
	set_value(&stop, 0);
	set_value(&ready, 0);
	set_value(&seen, 0);
}

/* None is lost, none comes twice. */
static void send_many(void)
{
	pthread_t other = start_thread(storm, NULL), thread = start_thread(storm, NULL);
	await_value(&ready, 2);
	for (int i = 1; i <= STORM; i++) {
		CHECK_EQ(kill(getpid(), i % 2 ? FIRST : SIGALRM), 0);
		await_value(&seen, i);
	}
	set_value(&stop, 1);
	join_thread(other);
	finish(thread);
}

/* The main thread lets them through for a while, and then not again: nobody else misses any. */
static void block_again(void)
{
	pthread_t thread = start_thread(storm, NULL);
	await_value(&ready, 1);
	for (int i = 1; i <= AGAIN; i++) {
		CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &all, NULL), 0);
		usleep(8000 + 100 * i);
		CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
		CHECK_EQ(kill(getpid(), FIRST), 0);
		await_value(&seen, i);
	}
	finish(thread);
}

static long open_for_ms;

static void open_all(int number)
{
	(void)number;
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &all, NULL), 0);
	sleep_ms(open_for_ms);
}

/* The main thread lets them through for a while, and has them blocked again by the end of a
 * handler, or by a jump. */
static void block_without_a_call(void)
{
	static sigjmp_buf before;
	pthread_t thread = start_thread(storm, NULL);
	await_value(&ready, 1);
	CHECK(signal(SIGHUP, open_all) != SIG_ERR);
	/* Until the kernel has long been let do it, or shortly. */
	for (int i = 1; i <= 2; i++) {
		open_for_ms = i == 1 ? FORGET_MS : 0;
		CHECK_EQ(raise(SIGHUP), 0);
		sleep_ms(open_for_ms ? 0 : FORGET_MS);
		CHECK_EQ(kill(getpid(), FIRST), 0);
		await_value(&seen, i);
	}
	if (sigsetjmp(before, 1) == 0) {
		CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &all, NULL), 0);
		sleep_ms(FORGET_MS);
		siglongjmp(before, 1);
	}
	CHECK_EQ(kill(getpid(), FIRST), 0);
	await_value(&seen, 3);
	finish(thread);
}

/* One comes while the thread waits for what never comes. */
static void is_handled_in_read(void)
{
	pthread_t thread = start_thread(reads, NULL);
	await_value(&ready, 1);
	/* One that comes before the call ends nothing. */
	for (int i = 1; __atomic_load_n(&ready, __ATOMIC_SEQ_CST) != 2; i++) {
		sleep_ms(20);
		CHECK_EQ(kill(getpid(), FIRST), 0);
		await_value(&seen, i);
		sleep_ms(20);
	}
	finish(thread);
}

/* One comes while the thread waits for something else. */
static void is_handled_in_wait(void)
{
	pthread_t thread = start_thread(waits, NULL);
	await_value(&ready, 1);
	sleep_ms(20);
	CHECK_EQ(kill(getpid(), FIRST), 0);
	await_value(&seen, 1);
	finish(thread);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	sigemptyset(&all);
	int numbers[] = { FIRST, SECOND, SIGINT, SIGALRM };
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(sigaction(numbers[i], &action, NULL), 0);
		sigaddset(&all, numbers[i]);
	}
	CHECK_EQ(pipe(pipe_ends), 0);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);

	block_without_a_call();

	pthread_t thread = start_thread(computes, (void *)3);
	await_value(&ready, 1);
	CHECK_EQ(kill(getpid(), FIRST), 0);
	await_value(&seen, 1);
	send_from_child(SECOND, 41);
	await_value(&seen, 2);
	CHECK_EQ(value_seen, 41);
	struct itimerval soon = { .it_value = { 0, 5000 } };
	CHECK_EQ(setitimer(ITIMER_REAL, &soon, NULL), 0);
	await_value(&seen, 3);
	finish(thread);

	/* It waits for its turn behind those that compute. */
	pthread_t busy[BUSY];
	for (int i = 0; i < BUSY; i++)
		busy[i] = start_thread(computes_blocked, NULL);
	await_value(&ready, BUSY);
	thread = start_thread(computes, (void *)1);
	await_value(&ready, 1);
	CHECK_EQ(kill(getpid(), SIGINT), 0);
	await_value(&seen, 1);
	set_value(&stop, 1);
	for (int i = 0; i < BUSY; i++)
		join_thread(busy[i]);
	finish(thread);

	is_handled_in_read();
	is_handled_in_wait();

	thread = start_thread(takes, NULL);
	await_value(&ready, 1);
	sleep_ms(20);
	CHECK_EQ(sigqueue(getpid(), SECOND, (union sigval){ .sival_int = 77 }), 0);
	await_value(&ready, 2);
	finish(thread);

	thread = start_thread(opens_later, NULL);
	await_value(&ready, 1);
	CHECK_EQ(kill(getpid(), FIRST), 0);
	sleep_ms(50);
	CHECK(is_pending(FIRST));
	set_value(&ready, 2);
	finish(thread);

	block_again();
	send_many();
	return 0;
}
