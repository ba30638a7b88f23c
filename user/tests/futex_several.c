/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A wait for several futexes at once is ended by the old wakes, and waits and wakes of the old and
 * the new calls find each other, whatever thread makes them.
 */
#define _GNU_SOURCE
#include "check.h"
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>

enum { WAITV = 449, WAKE = 454, WAIT = 455, REQUEUE = 456 };
/* A word of 32 bits of this process. */
enum { WORD = 2 | FUTEX_PRIVATE_FLAG, ANY = -1 };

struct word {
	uint64_t value, address;
	uint32_t flags, reserved;
};

static uint32_t words[2], other;
static int ready, woken, handled;

static struct word private_word(uint32_t *word)
{
	return (struct word){ .address = (uintptr_t)word, .flags = WORD };
}

/* Which of them was woken. */
static long wait_for_both(void)
{
	struct word both[2] = { private_word(&words[0]), private_word(&words[1]) };
	return syscall(WAITV, both, 2, 0, NULL, CLOCK_MONOTONIC);
}

static void *waits_for_both(void *arg)
{
	add_value(&ready, 1);
	long which = wait_for_both();
	CHECK(which == 0 || which == 1);
	add_value(&woken, 1);
	return (void *)which;
	(void)arg;
}

static void *waits_new(void *arg)
{
	add_value(&ready, 1);
	CHECK_EQ(syscall(WAIT, &words[0], 0UL, 0xffffffffUL, WORD, NULL, CLOCK_MONOTONIC), 0);
	add_value(&woken, 1);
	return arg;
}

static void *waits_old(void *arg)
{
	add_value(&ready, 1);
	CHECK_EQ(syscall(SYS_futex, &words[0], FUTEX_WAIT_PRIVATE, 0, NULL), 0);
	add_value(&woken, 1);
	return arg;
}

static long wakes_old(uint32_t *word)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
}

static long wakes_bits(uint32_t *word)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 4);
}

static long wakes_and_changes(uint32_t *word)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_OP_PRIVATE, 1, 1L, &other,
		       FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0x7ff));
}

static long wakes_new(uint32_t *word)
{
	return syscall(WAKE, word, 0xffffffffUL, 1, WORD);
}

/* Moves it to the other word, and wakes it there. */
static long requeues_old(uint32_t *word)
{
	long moved = syscall(SYS_futex, word, FUTEX_CMP_REQUEUE_PRIVATE, 0, 1L, &other, 0);
	CHECK(moved == 0 || moved == 1);
	return moved ? wakes_old(&other) : 0;
}

static long requeues_new(uint32_t *word)
{
	struct word both[2] = { private_word(word), private_word(&other) };
	long moved = syscall(REQUEUE, both, 0, 0, 1);
	CHECK(moved == 0 || moved == 1);
	return moved ? wakes_new(&other) : 0;
}

struct wake {
	long (*wake)(uint32_t *word);
	uint32_t *word;
};

/* Until one was woken. */
static void *wakes_one(void *arg)
{
	struct wake *by = arg;
	long end = now_ms() + 40000;
	while (by->wake(by->word) != 1) {
		CHECK(now_ms() < end);
		sched_yield();
	}
	return arg;
}

static void try_one(void *(*waits)(void *), struct wake by, int by_main)
{
	ready = woken = 0;
	/* What an operation compares with. */
	other = 0;
	pthread_t waiter = start_thread(waits, NULL);
	await_value(&ready, 1);
	if (by_main)
		wakes_one(&by);
	else
		join_thread(start_thread(wakes_one, &by));
	void *which = join_thread(waiter);
	CHECK_EQ(woken, 1);
	if (waits == waits_for_both)
		CHECK_EQ((intptr_t)which, by.word - words);
	/* Nobody is left. */
	CHECK_EQ(by.wake(by.word), 0);
}

static void try_all(void *(*waits)(void *), int words_number, int has_new)
{
	long (*const wakes[])(uint32_t *) = {
		wakes_old, wakes_bits, wakes_and_changes, requeues_old, wakes_new, requeues_new,
	};
	int number = has_new ? 6 : 4;
	for (int i = 0; i < number * words_number * 2; i++)
		try_one(waits, (struct wake){ wakes[i % number], &words[i / number / 2] },
			i / number % 2);
}

/* More than one at once: so many as are asked for, wherever they wait. */
static void wake_several(int has_new)
{
	enum { EACH = 2 };
	void *(*const waits[])(void *) = { waits_for_both, waits_old, waits_new };
	int kinds = has_new ? 3 : 2, number = kinds * EACH;
	pthread_t threads[3 * EACH];
	ready = woken = 0;
	for (int i = 0; i < number; i++)
		threads[i] = start_thread(waits[i % kinds], NULL);
	long sum = 0, end = now_ms() + 40000;
	await_value(&ready, number);
	while (sum < number) {
		long found = syscall(SYS_futex, &words[0], FUTEX_WAKE_PRIVATE, 2);
		CHECK(found >= 0 && found <= 2);
		sum += found;
		CHECK(now_ms() < end);
	}
	CHECK_EQ(sum, number);
	for (int i = 0; i < number; i++)
		join_thread(threads[i]);
}

static void handles(int signal)
{
	(void)signal;
	add_value(&handled, 1);
}

static void *is_interrupted(void *arg)
{
	add_value(&ready, 1);
	CHECK_ERRNO(wait_for_both(), EINTR);
	add_value(&woken, 1);
	return arg;
}

static void interrupt(void)
{
	struct sigaction action = { .sa_handler = handles };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	ready = woken = 0;
	pthread_t thread = start_thread(is_interrupted, NULL);
	await_value(&ready, 1);
	while (!__atomic_load_n(&woken, __ATOMIC_SEQ_CST)) {
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		sleep_ms(1);
	}
	join_thread(thread);
	action.sa_flags = SA_RESTART;
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	ready = woken = handled = 0;
	thread = start_thread(waits_for_both, NULL);
	await_value(&ready, 1);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	await_value(&handled, 1);
	wakes_one(&(struct wake){ wakes_old, &words[1] });
	CHECK(join_thread(thread) == (void *)1);
}

static void *errors(void *arg)
{
	struct timespec past = { 0, 1 };
	struct word word = private_word(&words[0]);
	CHECK_ERRNO(syscall(WAITV, &word, 1, 0, &past, CLOCK_MONOTONIC), ETIMEDOUT);
	word.value = 1;
	CHECK_ERRNO(syscall(WAITV, &word, 1, 0, NULL, CLOCK_MONOTONIC), EAGAIN);
	CHECK_ERRNO(syscall(WAITV, &word, 0, 0, NULL, CLOCK_MONOTONIC), EINVAL);
	return arg;
}

int main(void)
{
	if (syscall(WAITV, NULL, 0, 0, NULL, 0) < 0 && errno == ENOSYS)
		SKIP("the kernel has no futex_waitv");
	int has_new = syscall(WAKE, &other, 0xffffffffUL, 1, WORD) == 0;
	join_thread(start_thread(errors, NULL));
	try_all(waits_for_both, 2, has_new);
	try_all(waits_old, 1, has_new);
	if (has_new)
		try_all(waits_new, 1, 1);
	wake_several(has_new);
	interrupt();
	return 0;
}
