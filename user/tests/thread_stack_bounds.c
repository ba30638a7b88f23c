/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * pthread_getattr_np tells where a thread's stack is, as a collector asks that scans it: what it
 * has on its stack lies within, all of the stack can be used and read, of threads that wait too,
 * and its size is at least what was asked for, the guard not in it.
 */
#define _GNU_SOURCE
#include "check.h"

#define THREADS 8

static size_t default_size;
static const size_t SIZES[] = { 0, 32 << 10, 64 << 10, 100 << 10, 256 << 10, 1 << 20, 8 << 20 };

struct about {
	size_t asked;
	pthread_t thread;
	char *low, *high, *local;
	int step;
};

static void bounds(pthread_t thread, char **low, size_t *bytes, size_t *guard)
{
	pthread_attr_t attr;
	void *address;

	CHECK_EQ(pthread_getattr_np(thread, &attr), 0);
	CHECK_EQ(pthread_attr_getstack(&attr, &address, bytes), 0);
	CHECK_EQ(pthread_attr_getguardsize(&attr, guard), 0);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	*low = address;
}

/* Sum of a stack from `from` up, as a collector reads it. */
__attribute__((noinline)) static long scan(const char *from, const char *to)
{
	const volatile long *at = (const long *)((uintptr_t)from & ~7ul);
	long sum = 0, found = 0;

	for (; (const char *)(at + 1) <= to; at++) {
		sum += *at;
		found += *at == 0x5EA7C0DEl;
	}
	__asm__ volatile("" : : "r"(sum));
	return found;
}

/* Uses the stack down to `low`. */
__attribute__((noinline)) static void dig(char *low)
{
	volatile char here[1024];

	memset((char *)here, 1, sizeof here);
	if ((char *)here - low > 8192)
		dig(low);
	__asm__ volatile("" : : "r"(here) : "memory");
}

static void *waits(void *arg)
{
	struct about *about = arg;
	volatile long marked = 0x5EA7C0DEl;
	size_t bytes, guard;

	bounds(pthread_self(), &about->low, &bytes, &guard);
	about->high = about->low + bytes;
	about->local = (char *)&marked;
	CHECK(about->low < about->local && about->local < about->high);
	CHECK(bytes >= (about->asked ? about->asked : default_size));
	CHECK(guard >= 4096);
	if (about->asked != 0 && about->asked <= 256 << 10)
		dig(about->low);
	CHECK(scan(about->local, about->high) >= 1);
	set_value(&about->step, 1);
	await_value(&about->step, 2);
	CHECK_EQ(marked, 0x5EA7C0DEl);
	return arg;
}

static void try_size(size_t size)
{
	struct about about[THREADS];
	pthread_attr_t attr;

	CHECK_EQ(pthread_attr_init(&attr), 0);
	if (size != 0)
		CHECK_EQ(pthread_attr_setstacksize(&attr, size), 0);
	memset(about, 0, sizeof about);
	for (int i = 0; i < THREADS; i++) {
		about[i].asked = size;
		CHECK_EQ(pthread_create(&about[i].thread, &attr, waits, &about[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		char *low;
		size_t bytes, guard;

		await_value(&about[i].step, 1);
		bounds(about[i].thread, &low, &bytes, &guard);
		CHECK(low == about[i].low && low + bytes == about[i].high);
		/* Another one's stack can be read, and has what it put there. */
		CHECK(scan(about[i].local, about[i].high) >= 1);
		for (int j = 0; j < i; j++)
			CHECK(about[j].high <= about[i].low || about[i].high <= about[j].low);
	}
	for (int i = 0; i < THREADS; i++)
		set_value(&about[i].step, 2);
	for (int i = 0; i < THREADS; i++)
		join_thread(about[i].thread);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
}

int main(void)
{
	char *low, local = 0;
	size_t bytes, guard;
	pthread_attr_t attr;

	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_getstacksize(&attr, &default_size), 0);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
		try_size(SIZES[i]);
	bounds(pthread_self(), &low, &bytes, &guard);
	CHECK(low < &local && &local < low + bytes);
	return 0;
}
