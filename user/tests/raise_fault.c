/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A signal that stands for a fault and is sent kills like the fault: by raise() and kill(), in the
 * main thread and in another, of children that each of them has forked.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};

static void *raises(void *number)
{
	raise((int)(long)number);
	_exit(3);
}

static void *nothing(void *argument)
{
	return argument;
}

static void run(void *(*body)(void *), long argument)
{
	join_thread(start_thread(body, (void *)argument));
}

static void in_thread(int number)
{
	run(raises, number);
}

static void by_raise(int number)
{
	raise(number);
}

static void by_kill(int number)
{
	kill(getpid(), number);
}

static void by_fault(int number)
{
	if (number == SIGSEGV)
		*(volatile int *)8 = 1;
	raise(number);
}

static void *children(void *argument)
{
	void (*const ways[])(int) = {by_raise, by_kill, by_fault, in_thread};

	for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++) {
		for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
			int status;
			pid_t child = fork();

			CHECK(child >= 0);
			if (child == 0) {
				ways[way](signals[i]);
				_exit(4);
			}
			CHECK_EQ(waitpid(child, &status, 0), child);
			CHECK(WIFSIGNALED(status));
			CHECK_EQ(WTERMSIG(status), signals[i]);
		}
	}
	return argument;
}

int main(void)
{
	children(NULL);
	run(nothing, 0);
	children(NULL);
	run(children, 0);
	return 0;
}
