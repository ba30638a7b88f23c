/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A signal that is sent to a thread acts on that thread: its handler runs there, with its mask, in
 * the middle of what it computes or of a call that waits, which then fails with EINTR or goes on.
 */
#define _GNU_SOURCE
#include "kill_until.h"
#include <sys/syscall.h>

static _Thread_local volatile int handled;
static int ready, seen, ended, pipe_ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t never;
static pid_t numbers[1];
static volatile pthread_t ran_on;

static void on_signal(int number, siginfo_t *info, void *context)
{
	int saved = errno;
	CHECK_EQ(info->si_signo, number);
	CHECK(context != NULL);
	if (info->si_code == SI_TKILL)
		CHECK_EQ(info->si_pid, getpid());
	sigset_t now;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	CHECK(sigismember(&now, number));
	ran_on = pthread_self();
	handled++;
	add_value(&seen, 1);
	errno = saved;
}

static void leave(int number)
{
	(void)number;
	pthread_exit((void *)7);
}

static void handle(int number, int flags)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = flags | SA_SIGINFO };
	CHECK_EQ(sigaction(number, &action, NULL), 0);
}

static sigset_t only(int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	return set;
}

static void *computes(void *arg)
{
	numbers[0] = gettid();
	set_value(&ready, 1);
	while (handled < (int)(intptr_t)arg)
		;
	return NULL;
}

static void *sleeps(void *arg)
{
	struct timespec time = { 1000, 0 }, left = { 0, 0 };
	set_value(&ready, 1);
	CHECK_ERRNO(nanosleep(&time, &left), EINTR);
	CHECK(left.tv_sec >= 900 && left.tv_sec <= 1000);
	CHECK(handled >= 1);
	set_value(&ready, 2);
	CHECK(sleep(1000) >= 900);
	set_value(&ready, 3);
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &left), EINTR);
	set_value(&ready, 4);
	CHECK_ERRNO(sem_wait(&never), EINTR);
	set_value(&ready, 5);
	char byte;
	CHECK_ERRNO(read(pipe_ends[0], &byte, 1), EINTR);
	set_value(&ready, 6);
	CHECK_ERRNO(pause(), EINTR);
	CHECK(handled >= 6);
	set_value(&ready, 7);
	return arg;
}

static void *restarts(void *arg)
{
	set_value(&ready, 1);
	char byte;
	CHECK_EQ(read(pipe_ends[0], &byte, 1), 1);
	CHECK_EQ(handled, 1);
	return arg;
}

static void *waits(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	set_value(&ready, 1);
	while (!ended)
		CHECK_EQ(pthread_cond_wait(&cond, &mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(handled, 1);
	return arg;
}

static void *joins(void *thread)
{
	set_value(&ready, 1);
	join_thread(*(pthread_t *)thread);
	CHECK_EQ(handled, 1);
	return NULL;
}

static void *blocks(void *arg)
{
	sigset_t set = only(SIGUSR1), pending;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	set_value(&ready, 1);
	await_value(&ready, 2);
	CHECK_EQ(handled, 0);
	CHECK_EQ(sigpending(&pending), 0);
	CHECK(sigismember(&pending, SIGUSR1));
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	CHECK_EQ(handled, 1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	set_value(&ready, 3);
	siginfo_t info;
	CHECK_EQ(sigwaitinfo(&set, &info), SIGUSR1);
	CHECK_EQ(info.si_pid, getpid());
	CHECK_EQ(handled, 1);
	sigset_t none;
	sigemptyset(&none);
	set_value(&ready, 4);
	CHECK_ERRNO(sigsuspend(&none), EINTR);
	CHECK_EQ(handled, 2);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &set), 0);
	CHECK(sigismember(&set, SIGUSR1));
	return arg;
}

static void *raises(void *arg)
{
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(handled, 1);
	CHECK_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	CHECK_EQ(handled, 2);
	CHECK_EQ(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1), 0);
	CHECK_EQ(handled, 3);
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	close(ends[0]);
	CHECK_ERRNO(write(ends[1], "x", 1), EPIPE);
	CHECK_EQ(handled, 4);
	close(ends[1]);
	CHECK(pthread_equal(ran_on, pthread_self()));
	return arg;
}

/* Once *word has the value. */
static void kill_when(pthread_t thread, int *word, int value, int number)
{
	await_value(word, value);
	sleep_ms(20);
	CHECK_EQ(pthread_kill(thread, number), 0);
}

static void while_it_computes(void)
{
	pthread_t thread = start_thread(computes, (void *)2);
	await_value(&ready, 1);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	await_value(&seen, 1);
	CHECK(pthread_equal(ran_on, thread));
	CHECK_EQ(syscall(SYS_tgkill, getpid(), numbers[0], SIGUSR2), 0);
	await_value(&seen, 2);
	CHECK(pthread_equal(ran_on, thread));
	join_thread(thread);
	/* A kernel thread is joined a moment before it is gone. */
	for (int i = 0; i < 20000 && tgkill(getpid(), numbers[0], 0) == 0; i++)
		sleep_ms(1);
	CHECK_ERRNO(tgkill(getpid(), numbers[0], 0), ESRCH);
	CHECK_EQ(handled, 0);
}

static void while_it_waits(void)
{
	set_value(&ready, 0);
	pthread_t thread = start_thread(sleeps, NULL);
	await_value(&ready, 1);
	for (int i = 1; i <= 6; i++) {
		sleep_ms(20);
		kill_until(thread, SIGUSR1, &ready, i + 1);
	}
	join_thread(thread);
}

int main(void)
{
	CHECK_EQ(pipe(pipe_ends), 0);
	CHECK_EQ(sem_init(&never, 0, 0), 0);
	handle(SIGUSR1, 0);
	handle(SIGUSR2, SA_RESTART);
	handle(SIGPIPE, 0);

	while_it_computes();
	while_it_waits();
	int before = seen;

	set_value(&ready, 0);
	pthread_t thread = start_thread(restarts, NULL);
	kill_when(thread, &ready, 1, SIGUSR2);
	await_value(&seen, before + 1);
	CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
	join_thread(thread);

	set_value(&ready, 0);
	set_value(&ended, 0);
	thread = start_thread(waits, NULL);
	kill_when(thread, &ready, 1, SIGUSR1);
	await_value(&seen, before + 2);
	set_value(&ready, 0);
	pthread_t joiner = start_thread(joins, &thread);
	kill_when(joiner, &ready, 1, SIGUSR1);
	await_value(&seen, before + 3);
	pthread_mutex_lock(&mutex);
	ended = 1;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
	join_thread(joiner);

	set_value(&ready, 0);
	thread = start_thread(blocks, NULL);
	await_value(&ready, 1);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	set_value(&ready, 2);
	kill_when(thread, &ready, 3, SIGUSR1);
	kill_when(thread, &ready, 4, SIGUSR1);
	join_thread(thread);
	join_thread(start_thread(raises, NULL));

	signal(SIGUSR1, leave);
	set_value(&ready, 0);
	thread = start_thread(computes, (void *)1);
	kill_when(thread, &ready, 1, SIGUSR1);
	CHECK_EQ(join_thread(thread), 7);
	CHECK_EQ(handled, 0);
	return 0;
}
