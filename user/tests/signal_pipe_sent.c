/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * SIGPIPE and SIGXFSZ that somebody sends to the process are pending for that while all threads
 * block them, whatever these do; one that unblocks or waits for them gets them. What a write raises
 * is the writer's.
 */
#define _GNU_SOURCE
#include "check.h"
#include "pending.h"
#include "send.h"
#include "unseen.h"
#include <signal.h>
#include <sys/wait.h>

enum { BUSY = 2, WAIT_MS = 20 };
/* Who sends: this process, a child, this process by a call of its own, as to its whole group. */
enum { OWN, FROM_CHILD, UNSEEN, SENDERS };

static sigset_t both;
static int stop, ready, stage, handled;
static pthread_t handled_by;
static siginfo_t told;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	told = *info;
	handled_by = pthread_self();
	add_value(&handled, 1);
}

static pid_t send(int number, int by)
{
	if (by != FROM_CHILD) {
		CHECK_EQ(by == OWN ? kill(getpid(), number) : kill_unseen(getpid(), number), 0);
		return getpid();
	}
	return send_from_child(number);
}

static void *computes(void *arg)
{
	add_value(&ready, 1);
	while (!*(volatile int *)&stop)
		;
	return arg;
}

static void *takes(void *arg)
{
	siginfo_t info;
	set_value(&stage, 1);
	CHECK_EQ(sigwaitinfo(&both, &info), (int)(intptr_t)arg);
	CHECK_EQ(info.si_code, SI_USER);
	set_value(&stage, 2);
	return NULL;
}

static void *unblocks(void *arg)
{
	set_value(&stage, 1);
	await_value(&stage, 2);
	await_pending((int)(intptr_t)arg);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &both, NULL), 0);
	CHECK_EQ(handled, 1);
	CHECK(pthread_equal(handled_by, pthread_self()));
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
	CHECK(!is_pending((int)(intptr_t)arg));
	return NULL;
}

/* In a thread that is in sigwaitinfo() when it comes, or begins that later. */
static void waited_for(int number, int by)
{
	pthread_t thread;
	struct timespec at_once = { 0, 0 };
	siginfo_t info;
	set_value(&stage, 0);
	CHECK_EQ(pthread_create(&thread, NULL, takes, (void *)(intptr_t)number), 0);
	await_value(&stage, 1);
	sleep_ms(WAIT_MS);
	send(number, by);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	pid_t sender = send(number, by);
	sleep_ms(WAIT_MS);
	await_pending(number);
	if (by == OWN)
		send(number, OWN);
	CHECK_EQ(sigtimedwait(&both, &info, &at_once), number);
	CHECK_EQ(info.si_code, SI_USER);
	CHECK_EQ(info.si_pid, sender);
	CHECK(!is_pending(number));
	CHECK_ERRNO(sigtimedwait(&both, &info, &at_once), EAGAIN);
}

static void unblocked(int number, int by)
{
	pthread_t thread;
	set_value(&stage, 0);
	handled = 0;
	CHECK_EQ(pthread_create(&thread, NULL, unblocks, (void *)(intptr_t)number), 0);
	await_value(&stage, 1);
	pid_t sender = send(number, by);
	sleep_ms(WAIT_MS);
	CHECK_EQ(handled, 0);
	set_value(&stage, 2);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(told.si_code, SI_USER);
	CHECK_EQ(told.si_pid, sender);
}

/* The caller blocks it, and so does everybody when it is sent. */
static void ignored(int number, int by)
{
	send(number, by);
	sleep_ms(WAIT_MS);
	await_pending(number);
	struct sigaction before, action = { .sa_handler = SIG_IGN };
	CHECK_EQ(sigaction(number, &action, &before), 0);
	CHECK(!is_pending(number));
	CHECK_EQ(sigaction(number, &before, NULL), 0);
	CHECK(!is_pending(number));
}

/* In the thread that wrote, pending there and nowhere else. */
static void raised(void)
{
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(close(ends[0]), 0);
	CHECK_ERRNO(write(ends[1], "", 1), EPIPE);
	CHECK(is_pending(SIGPIPE));
	FILE *stream = fdopen(ends[1], "w");
	CHECK_EQ(fputc('x', stream), 'x');
	CHECK_EQ(fclose(stream), EOF);
	struct timespec at_once = { 0, 0 };
	CHECK_EQ(sigtimedwait(&both, NULL, &at_once), SIGPIPE);
	CHECK_ERRNO(sigtimedwait(&both, NULL, &at_once), EAGAIN);
}

static void *body(void *arg)
{
	for (int by = 0; by < SENDERS; by++)
		for (int index = 0; index < 2; index++) {
			int number = index ? SIGXFSZ : SIGPIPE;
			waited_for(number, by);
			unblocked(number, by);
			ignored(number, by);
		}
	raised();
	CHECK_EQ(handled, 1);
	/* For the main thread. */
	handled = 0;
	send(SIGPIPE, FROM_CHILD);
	sleep_ms(WAIT_MS);
	await_pending(SIGPIPE);
	return arg;
}

int main(void)
{
	sigemptyset(&both);
	sigaddset(&both, SIGPIPE);
	sigaddset(&both, SIGXFSZ);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &both, NULL), 0);
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	CHECK_EQ(sigaction(SIGPIPE, &action, NULL), 0);
	CHECK_EQ(sigaction(SIGXFSZ, &action, NULL), 0);
	pthread_t thread, busy[BUSY];
	for (int index = 0; index < BUSY; index++)
		CHECK_EQ(pthread_create(&busy[index], NULL, computes, NULL), 0);
	CHECK_EQ(pthread_create(&thread, NULL, body, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(is_pending(SIGPIPE));
	int number;
	CHECK_EQ(sigwait(&both, &number), 0);
	CHECK_EQ(number, SIGPIPE);
	CHECK(!is_pending(SIGPIPE));
	pid_t sender = send(SIGXFSZ, FROM_CHILD);
	await_pending(SIGXFSZ);
	CHECK_EQ(handled, 0);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &both, NULL), 0);
	CHECK_EQ(handled, 1);
	CHECK(pthread_equal(handled_by, pthread_self()));
	CHECK_EQ(told.si_pid, sender);
	CHECK_EQ(told.si_code, SI_USER);
	stop = 1;
	for (int index = 0; index < BUSY; index++)
		CHECK_EQ(pthread_join(busy[index], NULL), 0);
	return 0;
}
