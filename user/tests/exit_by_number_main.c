/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The main thread ends by exit(2), called by number: the others go on, and with the last of them
 * the process ends: with the status of that one (older kernels have the main thread's). It may be
 * joined.
 */
#define _GNU_SOURCE
#include "own_stack.h"
#include <dlfcn.h>

#include <sys/syscall.h>
#include <sys/wait.h>

enum { STATUS = 5, LAST_STATUS = 7 };

static int written[2];
static pthread_t main_thread;

static void *writes_later(void *joins)
{
	if (joins) {
		void *result = joins;
		CHECK_EQ(pthread_join(main_thread, &result), 0);
		CHECK(result == NULL);
	} else {
		sleep_ms(20);
	}
	CHECK_EQ(write(written[1], "x", 1), 1);
	return NULL;
}

static void *ends_by_number(void *arg)
{
	CHECK_EQ(write(written[1], "x", 1), 1);
	syscall(SYS_exit, 0);
	return arg;
}

static void none(void)
{
}

static void joins(void)
{
	start_thread(writes_later, &written);
}

static void many(void)
{
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_detach(start_thread(writes_later, NULL)), 0);
}

static void joined_before(void)
{
	join_thread(start_thread(writes_later, NULL));
}

static void *ends_last(void *arg)
{
	writes_later(NULL);
	syscall(SYS_exit, LAST_STATUS);
	return arg;
}

static void with_status(void)
{
	start_thread(ends_last, NULL);
}

/* A thread that is the kernel's. */
static void of_kernel(void)
{
	start_thread(writes_later, NULL);
	start_on_own_stack(ends_by_number, NULL);
}

int main(void)
{
	static const struct {
		void (*starts)(void);
		int count, status;
	} cases[] = { { none, 0, STATUS },
		      { joins, 1, 0 },
		      { many, 3, 0 },
		      { joined_before, 1, STATUS },
		      { with_status, 1, LAST_STATUS },
		      { of_kernel, 2, 0 } };

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[8];
		int status, length = 0;

		CHECK_EQ(pipe(written), 0);
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			main_thread = pthread_self();
			cases[i].starts();
			syscall(SYS_exit, STATUS);
		}
		CHECK_EQ(close(written[1]), 0);
		for (ssize_t got; (got = read(written[0], text + length, 8 - length)) > 0;)
			length += (int)got;
		CHECK_EQ(length, cases[i].count);
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK(WIFEXITED(status));
		if (WEXITSTATUS(status) != STATUS || dlsym(RTLD_DEFAULT, "heddle_debugger"))
			CHECK_EQ(WEXITSTATUS(status), cases[i].status);
		CHECK_EQ(close(written[0]), 0);
	}
	/* And of this one, which has full threads of its own. */
	CHECK_EQ(pipe(written), 0);
	join_thread(start_thread(writes_later, NULL));
	start_thread(writes_later, NULL);
	syscall(SYS_exit, 0);
	return 1;
}
