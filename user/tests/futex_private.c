/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The futex system call on private words: waits, wakes, bit sets, requeues and timeouts, between
 * threads and the main thread.
 */
#define _GNU_SOURCE
#include "check.h"
#include <linux/futex.h>
#include <sys/syscall.h>

static int word, other, ready, woken;

static long futex(int *at, int operation, int value, const struct timespec *timeout, int *second,
		  int bits)
{
	return syscall(SYS_futex, at, operation | FUTEX_PRIVATE_FLAG, value, timeout, second, bits);
}

/* The fourth argument of some operations is a number. */
static const struct timespec *number(long value)
{
	return (const struct timespec *)value;
}

static void *waits(void *bits)
{
	add_value(&ready, 1);
	CHECK_EQ(futex(&word, FUTEX_WAIT_BITSET, 0, NULL, NULL, (int)(intptr_t)bits), 0);
	add_value(&woken, 1);
	return NULL;
}

/* Wakes until so many have been woken in all. */
static void wake_until(int *at, int operation, int bits, int count)
{
	long end = now_ms() + 40000, sum = 0;
	while (sum < count) {
		CHECK(now_ms() < end);
		sum += futex(at, operation, 1, NULL, NULL, bits);
		sched_yield();
	}
	CHECK_EQ(sum, count);
}

static void test_errors(void)
{
	struct timespec bad = { 0, 1000000000 }, soon = { 0, 20000000 };
	CHECK_ERRNO(futex(&word, FUTEX_WAIT, 1, NULL, NULL, 0), EAGAIN);
	CHECK_ERRNO(futex(&word, FUTEX_WAIT, 0, &bad, NULL, 0), EINVAL);
	CHECK_ERRNO(futex(&word, FUTEX_WAIT_BITSET, 0, NULL, NULL, 0), EINVAL);
	CHECK_ERRNO(futex((int *)((char *)&word + 1), FUTEX_WAKE, 1, NULL, NULL, 0), EINVAL);
	CHECK_ERRNO(futex(&word, FUTEX_CMP_REQUEUE, 1, number(1), &other, 5), EAGAIN);
	long start = now_ms();
	CHECK_ERRNO(futex(&word, FUTEX_WAIT, 0, &soon, NULL, 0), ETIMEDOUT);
	CHECK(now_ms() - start >= 19);
	struct timespec at = moment(CLOCK_MONOTONIC, 20);
	CHECK_ERRNO(futex(&word, FUTEX_WAIT_BITSET, 0, &at, NULL, 1), ETIMEDOUT);
	at = moment(CLOCK_REALTIME, 20);
	CHECK_ERRNO(futex(&word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &at, NULL, 1),
		    ETIMEDOUT);
}

static void *errors(void *arg)
{
	test_errors();
	return arg;
}

static void test_bits(void)
{
	ready = woken = 0;
	pthread_t first = start_thread(waits, (void *)1), second = start_thread(waits, (void *)2);
	await_value(&ready, 2);
	wake_until(&word, FUTEX_WAKE_BITSET, 2, 1);
	join_thread(second);
	CHECK_EQ(woken, 1);
	CHECK_EQ(futex(&word, FUTEX_WAKE_BITSET, 9, NULL, NULL, 2), 0);
	wake_until(&word, FUTEX_WAKE, 0, 1);
	join_thread(first);
}

static void test_requeue(void)
{
	enum { THREADS = 4 };
	pthread_t threads[THREADS];
	ready = woken = 0;
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(waits, (void *)-1);
	await_value(&ready, THREADS);
	long moved = 0, end = now_ms() + 40000;
	while (moved < THREADS && now_ms() < end) {
		moved += futex(&word, FUTEX_CMP_REQUEUE, 0, number(1), &other, 0);
		sched_yield();
	}
	CHECK_EQ(moved, THREADS);
	CHECK_EQ(woken, 0);
	CHECK_EQ(futex(&word, FUTEX_WAKE, THREADS, NULL, NULL, 0), 0);
	wake_until(&other, FUTEX_WAKE, 0, THREADS);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
}

static void test_change(void)
{
	ready = woken = 0;
	pthread_t thread = start_thread(waits, (void *)-1);
	await_value(&ready, 1);
	other = 7;
	long sum = 0, end = now_ms() + 40000;
	while (sum == 0 && now_ms() < end)
		sum = futex(&word, FUTEX_WAKE_OP, 1, number(1), &other,
			    FUTEX_OP(FUTEX_OP_ADD, 2, FUTEX_OP_CMP_EQ, 1));
	CHECK_EQ(sum, 1);
	CHECK(other >= 9 && other % 2 == 1);
	join_thread(thread);
	other = 0;
}

int main(void)
{
	join_thread(start_thread(errors, NULL));
	test_errors();
	test_bits();
	test_requeue();
	test_change();
	return 0;
}
