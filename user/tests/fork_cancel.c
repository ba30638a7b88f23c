/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * In a child that a thread has forked, that thread is cancelled as any: by itself, by one that it
 * makes, where it waits and where it computes; with the cleanup handlers, the state and the type
 * that it had before the fork, and a request that has waited since then. And its alternate signal
 * stack is its own, or none.
 */
#define _GNU_SOURCE
#include "check.h"

#include <execinfo.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { RESULT = 7 };
/* In the order in which they are added: so the sum says which have run. */
enum { INSIDE = 1, BEFORE = 10, AROUND = 100, VALUE = 1000 };

static pthread_t forker;
static int *told;
static int ready, wanted;
static pthread_key_t key;
static volatile unsigned long turns;

static void clean(void *arg)
{
	add_value(told, (int)(intptr_t)arg);
}

static void *joins(void *arg)
{
	void *result = NULL;
	CHECK_EQ(pthread_join(forker, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_EQ(*told, wanted);
	_exit(RESULT);
	return arg;
}

static void *cancels_and_joins(void *arg)
{
	await_value(&ready, 1);
	/* It is on its way into the wait, or there. */
	sleep_ms(5);
	CHECK_EQ(pthread_cancel(forker), 0);
	return joins(arg);
}

/* What the thread does in the child; it does not come back. */
static void cancels_itself(void)
{
	start_thread(joins, NULL);
	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	pthread_testcancel();
}

static void cancels_itself_in_block(void)
{
	start_thread(joins, NULL);
	wanted += INSIDE;
	pthread_cleanup_push(clean, (void *)INSIDE);
	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	usleep(1);
	pthread_cleanup_pop(0);
}

static void sleeps(void)
{
	start_thread(cancels_and_joins, NULL);
	set_value(&ready, 1);
	for (;;)
		sleep(100);
}

static void reads(void)
{
	int ends[2];
	char byte;
	CHECK_EQ(pipe(ends), 0);
	start_thread(cancels_and_joins, NULL);
	set_value(&ready, 1);
	CHECK_EQ(read(ends[0], &byte, 1), 1);
}

static void polls(void)
{
	start_thread(cancels_and_joins, NULL);
	set_value(&ready, 1);
	poll(NULL, 0, -1);
}

static void waits_for_semaphore(void)
{
	sem_t semaphore;
	CHECK_EQ(sem_init(&semaphore, 0, 0), 0);
	start_thread(cancels_and_joins, NULL);
	set_value(&ready, 1);
	sem_wait(&semaphore);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void unlock(void *arg)
{
	CHECK_EQ(pthread_mutex_unlock(arg), 0);
}

static void waits_for_condition(void)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	start_thread(cancels_and_joins, NULL);
	pthread_cleanup_push(unlock, &mutex);
	set_value(&ready, 1);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
	pthread_cleanup_pop(0);
}

static void waits_for_file(void)
{
	char line[8];
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	FILE *stream = fdopen(ends[0], "r");
	start_thread(cancels_and_joins, NULL);
	set_value(&ready, 1);
	CHECK(fgets(line, sizeof line, stream) == NULL);
}

static void computes(void)
{
	int old;
	start_thread(cancels_and_joins, NULL);
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_DEFERRED);
	set_value(&ready, 1);
	for (;;)
		turns++;
}

static void (*const bodies[])(void) = {
	cancels_itself, cancels_itself_in_block, sleeps,   reads,
	polls,		waits_for_semaphore, waits_for_condition, waits_for_file,
	computes,
};

static void await_child(pid_t child, int end)
{
	int status;
	CHECK(child > 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), end);
}

static void begin(void)
{
	*told = 0;
	wanted = AROUND + BEFORE + VALUE;
	set_value(&ready, 0);
	forker = pthread_self();
	CHECK_EQ(pthread_setspecific(key, (void *)VALUE), 0);
}

__attribute__((noinline)) static void forks_inside(void (*body)(void))
{
	pthread_cleanup_push(clean, (void *)BEFORE);
	pid_t child = fork();
	if (child == 0) {
		body();
		_exit(1);
	}
	await_child(child, RESULT);
	pthread_cleanup_pop(0);
}

static void *forks(void *arg)
{
	begin();
	pthread_cleanup_push(clean, (void *)AROUND);
	forks_inside(bodies[(intptr_t)arg]);
	pthread_cleanup_pop(0);
	CHECK_EQ(pthread_setspecific(key, NULL), 0);
	return NULL;
}

/* Disabled and asynchronous in the parent: so it is in the child, where a request waits. */
static void keeps_state(void)
{
	int old = -1;
	start_thread(joins, NULL);
	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	pthread_testcancel();
	usleep(1);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_DISABLE);
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_ASYNCHRONOUS);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	for (;;)
		turns++;
}

static void *forks_disabled(void *arg)
{
	int old;
	begin();
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	pthread_cleanup_push(clean, (void *)AROUND);
	forks_inside(keeps_state);
	pthread_cleanup_pop(0);
	CHECK_EQ(pthread_setspecific(key, NULL), 0);
	return arg;
}

/* Asked for in the parent, and due in the child, too. */
static void is_asked_already(void)
{
	int old;
	start_thread(joins, NULL);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
	pthread_testcancel();
}

static void *forks_asked(void *arg)
{
	int old;
	begin();
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	pthread_cleanup_push(clean, (void *)AROUND);
	forks_inside(is_asked_already);
	CHECK_EQ(pthread_setspecific(key, NULL), 0);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return arg;
}

/* The cleanup handlers of before run by pthread_exit, too; and none does after a pop. */
static void *joins_exited(void *arg)
{
	void *result = NULL;
	CHECK_EQ(pthread_join(forker, &result), 0);
	CHECK(result == &forker);
	CHECK_EQ(*told, wanted);
	_exit(RESULT);
	return arg;
}

static void exits(void)
{
	wanted += INSIDE;
	start_thread(joins_exited, NULL);
	pthread_cleanup_push(clean, (void *)INSIDE);
	pthread_cleanup_push(clean, (void *)INSIDE);
	pthread_cleanup_pop(0);
	pthread_exit(&forker);
	pthread_cleanup_pop(0);
}

static void *forks_and_exits(void *arg)
{
	begin();
	pthread_cleanup_push(clean, (void *)AROUND);
	forks_inside(exits);
	pthread_cleanup_pop(0);
	CHECK_EQ(pthread_setspecific(key, NULL), 0);
	return arg;
}

/* A child that leaves the blocks of before by itself, and is cancelled behind them. */
static void *forks_and_leaves(void *arg)
{
	pid_t child;
	begin();
	pthread_cleanup_push(clean, (void *)AROUND);
	pthread_cleanup_push(clean, (void *)BEFORE);
	child = fork();
	if (child == 0)
		wanted -= BEFORE;
	else
		await_child(child, RESULT);
	pthread_cleanup_pop(0);
	if (child == 0) {
		start_thread(joins, NULL);
		CHECK_EQ(pthread_cancel(pthread_self()), 0);
		pthread_testcancel();
		_exit(1);
	}
	pthread_cleanup_pop(0);
	CHECK_EQ(pthread_setspecific(key, NULL), 0);
	return arg;
}

/* Nobody joins it: the process ends with its last thread. */
static void is_last(void)
{
	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	pthread_testcancel();
}

static void *forks_last(void *arg)
{
	begin();
	pid_t child = fork();
	if (child == 0) {
		is_last();
		_exit(1);
	}
	await_child(child, 0);
	CHECK_EQ(*told, VALUE);
	CHECK_EQ(pthread_setspecific(key, NULL), 0);
	return arg;
}

/* By both calls. */
static int is_stack(const void *low, size_t bytes)
{
	stack_t now = { 0 }, by_number = { 0 };
	CHECK_EQ(sigaltstack(NULL, &now), 0);
	CHECK_EQ(syscall(SYS_sigaltstack, NULL, &by_number), 0);
	CHECK_EQ(now.ss_flags, by_number.ss_flags);
	if (low == NULL)
		return now.ss_flags == SS_DISABLE && by_number.ss_flags == SS_DISABLE;
	return now.ss_flags == 0 && now.ss_sp == low && by_number.ss_sp == low &&
	       now.ss_size == bytes && by_number.ss_size == bytes;
}

static void *forks_with_stack(void *arg)
{
	enum { BYTES = 65536 };
	static char low[BYTES];
	stack_t own = { .ss_sp = low, .ss_size = BYTES };
	pid_t child = fork();
	if (child == 0)
		_exit(is_stack(NULL, 0) ? RESULT : 1);
	await_child(child, RESULT);
	CHECK_EQ(sigaltstack(&own, NULL), 0);
	child = fork();
	if (child == 0) {
		if (!is_stack(low, BYTES))
			_exit(1);
		own.ss_flags = SS_DISABLE;
		_exit(syscall(SYS_sigaltstack, &own, NULL) == 0 && is_stack(NULL, 0) ? RESULT : 1);
	}
	await_child(child, RESULT);
	return arg;
}

int main(void)
{
	/* Loads the unwinder, see join_forked. */
	void *frame;
	CHECK_EQ(backtrace(&frame, 1), 1);
	told = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(told != MAP_FAILED);
	CHECK_EQ(pthread_key_create(&key, clean), 0);
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
		join_thread(start_thread(forks, (void *)i));
	join_thread(start_thread(forks_disabled, NULL));
	CHECK(join_thread(start_thread(forks_asked, NULL)) == PTHREAD_CANCELED);
	join_thread(start_thread(forks_and_exits, NULL));
	join_thread(start_thread(forks_and_leaves, NULL));
	join_thread(start_thread(forks_last, NULL));
	join_thread(start_thread(forks_with_stack, NULL));
	return 0;
}
