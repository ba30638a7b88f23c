/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A process whose main thread has called pthread_exit ends with its last thread, with status 0:
 * also when that is one that only the kernel can make, one that such a thread has made, or one that
 * a forked child has.
 */
#define _GNU_SOURCE
#include "own_stack.h"

#include <execinfo.h>
#include <sys/wait.h>

static int written[2];
static pthread_key_t key;

static void say(char what)
{
	CHECK_EQ(write(written[1], &what, 1), 1);
}

/* Comes in the third round of destructors. */
static void count_rounds(void *value)
{
	if ((uintptr_t)value < 3)
		pthread_setspecific(key, (void *)((uintptr_t)value + 1));
	else
		say('d');
}

static void *write_later(void *arg)
{
	CHECK_EQ(pthread_setspecific(key, (void *)1), 0);
	sleep_ms(20);
	say('x');
	if (arg)
		pthread_exit(arg);
	return arg;
}

static void *start_another(void *arg)
{
	sleep_ms(5);
	CHECK_EQ(pthread_detach(start_thread(write_later, arg)), 0);
	return NULL;
}

static void *start_kernel_thread(void *arg)
{
	sleep_ms(5);
	CHECK_EQ(pthread_detach(start_on_own_stack(write_later, arg)), 0);
	return NULL;
}

static void *return_at_once(void *arg)
{
	return arg;
}

/* The child goes on as the one thread of a process of its own. */
static void *fork_and_end(void *arg)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK_EQ(pthread_setspecific(key, (void *)1), 0);
		start_on_own_stack(write_later, arg);
		pthread_exit(NULL);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	return NULL;
}

static void one_kernel_thread(void)
{
	start_on_own_stack(write_later, NULL);
}

static void one_that_exits(void)
{
	join_thread(start_thread(return_at_once, NULL));
	start_on_own_stack(write_later, &key);
}

static void kernel_then_full(void)
{
	start_on_own_stack(start_another, NULL);
}

static void full_then_kernel(void)
{
	start_thread(start_kernel_thread, NULL);
}

static void fork_in_full(void)
{
	start_thread(fork_and_end, NULL);
}

static void fork_in_kernel(void)
{
	start_on_own_stack(fork_and_end, NULL);
}

/* `or`: on a busy machine the one thread may be done before the other one has ended. */
static void try(const char *name, void (*start)(void), const char *want, const char *or)
{
	CHECK_EQ(pipe(written), 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(written[0]);
		CHECK_EQ(pthread_key_create(&key, count_rounds), 0);
		start();
		pthread_exit(NULL);
	}
	close(written[1]);
	char got[16] = "";
	size_t length = 0;
	ssize_t count;
	while ((count = read(written[0], got + length, sizeof(got) - 1 - length)) > 0)
		length += (size_t)count;
	CHECK_EQ(count, 0);
	close(written[0]);
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	if ((strcmp(got, want) != 0 && strcmp(got, or) != 0) || status != 0) {
		fprintf(stderr, "%s: wrote \"%s\", not \"%s\"; status %x\n", name, got, want,
			(unsigned)status);
		_exit(1);
	}
}

int main(void)
{
	/* Loads the unwinder: a fork beside the pthread_exit that does so leaves the child without. */
	void *frame;
	CHECK_EQ(backtrace(&frame, 1), 1);
	try("one kernel thread", one_kernel_thread, "xd", "xd");
	try("one that exits", one_that_exits, "xd", "xd");
	try("kernel, then full", kernel_then_full, "xd", "xd");
	try("full, then kernel", full_then_kernel, "xd", "xd");
	try("fork in full", fork_in_full, "dxd", "xdd");
	try("fork in kernel", fork_in_kernel, "dxd", "xdd");
	return 0;
}
