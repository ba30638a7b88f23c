/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A handler with SA_RESETHAND runs once. By then the default is set, and the flags and the mask
 * are what they were; what is pending stays so.
 */
#define _GNU_SOURCE
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static int runs;
static sigjmp_buf back;

static void told(int number)
{
	struct sigaction action;
	CHECK_EQ(sigaction(number, NULL, &action), 0);
	CHECK(action.sa_handler == SIG_DFL);
	int flags = SA_RESETHAND | SA_RESTART | SA_SIGINFO;
	CHECK_EQ(action.sa_flags & flags, flags & ~SA_SIGINFO);
	CHECK(sigismember(&action.sa_mask, SIGUSR2));
	CHECK(!sigismember(&action.sa_mask, SIGUSR1));
}

static void on_signal(int number)
{
	told(number);
	runs++;
	if (number == SIGSEGV)
		siglongjmp(back, 1);
}

static void *body(void *arg)
{
	int numbers[] = { SIGUSR1, SIGPIPE, SIGURG, SIGCHLD, SIGSEGV, SIGTRAP };
	int count = sizeof(numbers) / sizeof(*numbers);
	for (int index = 0; index < count; index++) {
		struct sigaction action = { .sa_handler = on_signal };
		action.sa_flags = (int)SA_RESETHAND | SA_RESTART;
		sigemptyset(&action.sa_mask);
		sigaddset(&action.sa_mask, SIGUSR2);
		CHECK_EQ(sigaction(numbers[index], &action, NULL), 0);
		if (numbers[index] != SIGSEGV)
			CHECK_EQ(raise(numbers[index]), 0);
		else if (sigsetjmp(back, 1) == 0)
			*(volatile int *)NULL = 1;
		told(numbers[index]);
		CHECK_EQ(runs, index + 1);
	}
	return arg;
}

int main(void)
{
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, body, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return 0;
}
