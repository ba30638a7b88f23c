/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The main thread is joined like any other, after its pthread_exit and after its cancellation, by
 * threads of either kind; a process whose main thread was cancelled ends with its last thread, with
 * status 0. Each case is a process, which writes a letter for each thing that came about.
 */
#define _GNU_SOURCE
#include "own_stack.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <sys/wait.h>

static pthread_t main_thread;
static pthread_key_t key;
static int written[2];
/* Its values are gone. */
static atomic_int is_done;
/* What the thread that joins does first. */
static void (*before)(void);
static void *wanted;

static void say(char what)
{
	CHECK_EQ(write(written[1], &what, 1), 1);
}

static void say_value(void *value)
{
	(void)value;
	say('d');
	atomic_store(&is_done, 1);
}

static void say_cleanup(void *arg)
{
	(void)arg;
	say('c');
}

static void *join_main(void *arg)
{
	if (before)
		before();
	void *result = arg;
	CHECK_EQ(pthread_join(main_thread, &result), 0);
	CHECK(result == wanted);
	say('j');
	return NULL;
}

static void nothing(void)
{
}

static void soon(void)
{
	sleep_ms(20);
}

static void cancel(void)
{
	sleep_ms(5);
	CHECK_EQ(pthread_cancel(main_thread), 0);
}

/* It lives: nobody gets it. */
static void try_first(void)
{
	void *result = NULL;
	struct timespec at;
	CHECK_EQ(pthread_tryjoin_np(main_thread, &result), EBUSY);
	CHECK_EQ(clock_gettime(CLOCK_REALTIME, &at), 0);
	at.tv_nsec += 5000000;
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	CHECK_EQ(pthread_timedjoin_np(main_thread, &result, &at), ETIMEDOUT);
	CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &at), 0);
	CHECK_EQ(pthread_clockjoin_np(main_thread, &result, CLOCK_MONOTONIC, &at), ETIMEDOUT);
	CHECK(result == NULL);
	cancel();
}

static void wait_for_ever(void)
{
	CHECK_EQ(pthread_setspecific(key, &key), 0);
	pthread_cleanup_push(say_cleanup, NULL);
	for (;;)
		pause();
	pthread_cleanup_pop(0);
}

static void leave(void)
{
	CHECK_EQ(pthread_setspecific(key, &key), 0);
	wanted = &key;
	pthread_exit(&key);
}

static void full_after_exit(void)
{
	start_thread(join_main, NULL);
	leave();
}

static void kernel_after_exit(void)
{
	start_on_own_stack(join_main, NULL);
	leave();
}

static void full_after_cancel(void)
{
	start_thread(join_main, NULL);
	wait_for_ever();
}

static void kernel_after_cancel(void)
{
	start_on_own_stack(join_main, NULL);
	wait_for_ever();
}

static void *cancel_and_end(void *arg)
{
	cancel();
	while (!atomic_load(&is_done))
		sleep_ms(1);
	say('x');
	return arg;
}

static void nobody_joins(void)
{
	start_thread(cancel_and_end, NULL);
	wait_for_ever();
}

/* Who joins it is cancelled itself; then another one may. */
static void joiner_is_cancelled(void)
{
	pthread_t joiner = start_thread(join_main, NULL);
	sleep_ms(10);
	CHECK_EQ(pthread_cancel(joiner), 0);
	void *result = NULL;
	CHECK_EQ(pthread_join(joiner, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	full_after_exit();
}

static void *return_at_once(void *arg)
{
	return arg;
}

static void *is_refused(void *arg)
{
	CHECK_EQ(pthread_join(main_thread, NULL), EINVAL);
	return arg;
}

static void is_not_to_be_joined(void)
{
	join_thread(start_thread(return_at_once, NULL));
	CHECK_EQ(pthread_join(pthread_self(), NULL), EDEADLK);
	CHECK_EQ(pthread_detach(pthread_self()), 0);
	join_thread(start_thread(is_refused, NULL));
	join_thread(start_on_own_stack(is_refused, NULL));
	leave();
}

/* The child has threads of its own, and its parent's main thread. */
static void child_of_main(void)
{
	join_thread(start_thread(return_at_once, NULL));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		nobody_joins();
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	leave();
}

static void try(const char *name, void (*first)(void), void (*start)(void), const char *want)
{
	before = first;
	wanted = PTHREAD_CANCELED;
	CHECK_EQ(pipe(written), 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(written[0]);
		main_thread = pthread_self();
		CHECK_EQ(pthread_key_create(&key, say_value), 0);
		start();
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
	if (strcmp(got, want) != 0 || status != 0) {
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
	try("full thread, waits for its pthread_exit", nothing, full_after_exit, "dj");
	try("full thread, comes after it", soon, full_after_exit, "dj");
	try("kernel thread, waits for its pthread_exit", nothing, kernel_after_exit, "dj");
	try("kernel thread, comes after it", soon, kernel_after_exit, "dj");
	try("full thread cancels it", cancel, full_after_cancel, "cdj");
	try("kernel thread cancels it", cancel, kernel_after_cancel, "cdj");
	try("full thread tries first", try_first, full_after_cancel, "cdj");
	try("kernel thread tries first", try_first, kernel_after_cancel, "cdj");
	try("nobody joins it", NULL, nobody_joins, "cdx");
	try("who joins it is cancelled", NULL, joiner_is_cancelled, "dj");
	try("is not to be joined", NULL, is_not_to_be_joined, "d");
	try("child of main", NULL, child_of_main, "cdxd");
	return 0;
}
