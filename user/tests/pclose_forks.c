/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A handler forks while its thread is in pclose(): in the child that fails, for the command is not
 * its child. A thread of the asynchronous type that is cancelled in pclose() ends as that does.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

/* How long nobody may hang. */
#define LIMIT_S 30

static volatile pid_t forked = -1;
static pid_t shell;
static int ready, handled;

static void on_user(int number)
{
	(void)number;
	forked = fork();
	if (forked == 0)
		alarm(LIMIT_S);
	else
		set_value(&handled, 1);
}

/* A command that closes its output, and ends with 4 when it is sent SIGUSR2. */
static FILE *start(void)
{
	FILE *pipe = popen("trap 'exit 4' USR2; echo $$; exec >&-; while :; do sleep 0.01; done",
			   "r");
	long number;

	CHECK(pipe);
	CHECK_EQ(fscanf(pipe, "%ld", &number), 1);
	shell = (pid_t)number;
	set_value(&ready, 1);
	return pipe;
}

static void *forks(void *arg)
{
	int status = pclose(start());

	if (forked == 0)
		_exit(status == -1 && errno == ECHILD ? 11 : 12);
	CHECK_EQ(status, 4 << 8);
	return arg;
}

static void *computes(void *arg)
{
	FILE *pipe = start();
	volatile long count = 0;
	long end;

	(void)arg;
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	pclose(pipe);
	for (end = now_ms() + LIMIT_S * 1000; now_ms() < end;)
		count++;
	return &ready;
}

/* A thread that is in pclose(), or about to be. */
static pthread_t started(void *(*thread)(void *))
{
	pthread_t it;

	set_value(&ready, 0);
	it = start_thread(thread, NULL);
	await_value(&ready, 1);
	sleep_ms(50);
	return it;
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_user };
	pthread_t thread;
	int status;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
		set_value(&handled, 0);
		thread = started(forks);
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		await_value(&handled, 1);
		CHECK_EQ(waitpid(forked, &status, 0), forked);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), 11);
		CHECK_EQ(kill(shell, SIGUSR2), 0);
		join_thread(thread);
		action.sa_flags = SA_RESTART;
	}
	thread = started(computes);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(kill(shell, SIGUSR2), 0);
	/* The C library may say another result than PTHREAD_CANCELED. */
	CHECK(join_thread(thread) != &ready);
	return 0;
}
