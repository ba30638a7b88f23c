/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A signal that is sent to a thread is handled before the thread has ended, wherever it waits when
 * it comes: in stdio, in system(), in pclose(). With SA_RESTART these go on.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static int pipe_ends[2], inside;
static _Thread_local volatile int own;
static int seen;

static void on_signal(int number)
{
	(void)number;
	own++;
	__atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST);
}

static void *gets_line(void *unused)
{
	char text[8];
	FILE *file = fdopen(pipe_ends[0], "r");
	CHECK(file != NULL);
	__atomic_store_n(&inside, 1, __ATOMIC_SEQ_CST);
	CHECK(fgets(text, sizeof text, file) == text);
	return unused;
}

static void *gets_line_and_exits(void *unused)
{
	pthread_exit(gets_line(unused));
}

static void *runs_command(void *unused)
{
	__atomic_store_n(&inside, 1, __ATOMIC_SEQ_CST);
	CHECK_EQ(WEXITSTATUS(system("sleep 0.3; exit 5")), 5);
	CHECK(own > 0);
	return unused;
}

static void *closes_pipe(void *unused)
{
	FILE *file = popen("sleep 0.3; exit 6", "r");
	CHECK(file != NULL);
	__atomic_store_n(&inside, 1, __ATOMIC_SEQ_CST);
	CHECK_EQ(WEXITSTATUS(pclose(file)), 6);
	CHECK(own > 0);
	return unused;
}

static void send_to(void *(*function)(void *), int writes)
{
	pthread_t thread;

	seen = inside = 0;
	CHECK_EQ(pipe(pipe_ends), 0);
	CHECK_EQ(pthread_create(&thread, NULL, function, NULL), 0);
	while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) == 0)
		sleep_ms(1);
	sleep_ms(30);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	sleep_ms(30);
	if (writes)
		CHECK_EQ(write(pipe_ends[1], "x\n", 2), 2);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(__atomic_load_n(&seen, __ATOMIC_SEQ_CST), 1);
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	for (int i = 0; i < 5; i++) {
		send_to(gets_line, 1);
		send_to(gets_line_and_exits, 1);
	}
	send_to(runs_command, 0);
	send_to(closes_pipe, 0);
	return 0;
}
