/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The process's identities change in all its threads, whoever changes them, while others compute,
 * sleep and wait; the call returns.
 */
#define _GNU_SOURCE
#include "check.h"
#include <grp.h>
#include <sys/syscall.h>

enum { COMPUTE = 3, WAIT = 3, LOOK = 4, TURNS = 25, OTHER = 65534 };
static int is_over, looked, turn;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;

static void *computes(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
		;
	return arg;
}

static void *waits(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	while (!is_over)
		CHECK_EQ(pthread_cond_wait(&change, &lock), 0);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	return arg;
}

/* Says of each turn that the kernel has the same for it as for the process. */
static void *looks(void *arg)
{
	for (int seen = 0; seen < 2 * TURNS; seen++) {
		while (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) == seen)
			sleep_ms(1);
		CHECK_EQ(syscall(SYS_getegid), getegid());
		CHECK_EQ(syscall(SYS_geteuid), geteuid());
		__atomic_add_fetch(&looked, 1, __ATOMIC_SEQ_CST);
	}
	return arg;
}

static void await_looks(int count)
{
	while (__atomic_load_n(&looked, __ATOMIC_SEQ_CST) < count * LOOK)
		sleep_ms(1);
}

/* TURNS times to another group and back; who may not, or has none, asks for what there is. */
static void *changes(void *arg)
{
	gid_t own = getegid(), other = setegid(OTHER) == 0 ? OTHER : own;

	CHECK_EQ(setegid(own), 0);
	for (int i = 0; i < TURNS; i++) {
		CHECK_EQ(setegid(i % 2 ? own : other), 0);
		CHECK_EQ(getegid(), i % 2 ? own : other);
		CHECK_EQ(seteuid(geteuid()), 0);
		CHECK_EQ(setresuid(-1, -1, -1), 0);
		CHECK_EQ(setegid(i % 2 ? own : other), 0);
		await_looks(__atomic_add_fetch(&turn, 1, __ATOMIC_SEQ_CST));
	}
	CHECK_EQ(setegid(own), 0);
	return arg;
}

int main(void)
{
	pthread_t threads[COMPUTE + WAIT + LOOK];
	int count = 0;

	while (count < COMPUTE)
		threads[count++] = start_thread(computes, NULL);
	while (count < COMPUTE + WAIT)
		threads[count++] = start_thread(waits, NULL);
	while (count < COMPUTE + WAIT + LOOK)
		threads[count++] = start_thread(looks, NULL);
	join_thread(start_thread(changes, NULL));
	/* The main thread as well. */
	changes(NULL);
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	CHECK_EQ(pthread_cond_broadcast(&change), 0);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	while (count > 0)
		join_thread(threads[--count]);
	return 0;
}
