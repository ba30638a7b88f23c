/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Whether destructors of the program run after a thread's start function has returned: those of
 * thread_local objects and those of pthread keys.
 *
 * A key of our own would see the end of each thread, after all of these. But its value makes
 * glibc walk through all keys of the thread, twice: half of what we cost. So our key gets a value
 * only in a thread in which something else is to come, or that ends by pthread_exit() or
 * cancellation (life.c); most threads end without.
 *
 *   1. thread_local objects are made known by __cxa_thread_atexit_impl(): it is noted, and passed
 *      on.
 *   2. glibc notes in the thread's descriptor that some key got a value, in one byte, never
 *      cleared while the thread lives. The byte is searched in one thread, by giving our key a
 *      value; found again in others; and only then believed.
 *
 * Invariant: where the answer is not known for sure it is yes.
 */
#define _GNU_SOURCE
#include "preload.h"

#define UNTRIED 0
#define NOT_THERE (-1)
#define CHECKS 2
/* A search finds two where the kernel or another thread wrote meanwhile. */
#define SEARCHES_MAX 4

/* The byte's offset in the descriptor. */
static int used_byte = UNTRIED;
static uint32_t checks;
static uint32_t searches;
/* Held by the one thread that learns. */
static uint32_t is_learning;

static THREAD_LOCAL bool has_objects;

static uint8_t *descriptor(void) { return (uint8_t *)(uintptr_t)pthread_self(); }

static bool is_believed(void)
{
	return load_acquire(&used_byte) > 0 && load(&checks) >= CHECKS;
}

/* ---- the byte */

/* Bytes of the descriptor that may be looked at. */
static size_t readable_bytes(const uint8_t *begin)
{
	return PAGE_SIZE - (uintptr_t)begin % PAGE_SIZE;
}

/* Of the value and the count beside it, which get other values as well. */
static bool is_of_value(const uint8_t *begin, size_t byte, const void *value)
{
	const size_t word = byte / sizeof(value), words = readable_bytes(begin) / sizeof(value);
	const uintptr_t *all = (const uintptr_t *)(const void *)begin;

	return all[word] == (uintptr_t)value ||
	       (word + 1 < words && all[word + 1] == (uintptr_t)value);
}

/* The only byte that went from 0 to 1 as our key got its first value. */
static int search(const void *value)
{
	static uint8_t before[PAGE_SIZE]; /* on the stack it would count as the thread's use */
	const uint8_t *begin = descriptor();
	const size_t bytes = readable_bytes(begin);
	int found = NOT_THERE;

	memcpy(before, begin, bytes);
	if (pthread_setspecific(end_key(), value) != 0)
		return NOT_THERE;
	for (size_t byte = 1; byte < bytes; byte++) {
		if (before[byte] != 0 || load(&begin[byte]) != 1 ||
		    is_of_value(begin, byte, value))
			continue;
		if (found != NOT_THERE)
			return NOT_THERE;
		found = (int)byte;
	}
	return found;
}

/* Whether the byte is in this thread what it was in the other. */
static bool check(const void *value)
{
	const uint8_t *byte = descriptor() + used_byte;
	const uint8_t before = load(byte);

	return pthread_setspecific(end_key(), value) == 0 && before == 0 && load(byte) == 1;
}

static void learn(const void *value)
{
	const int known = load(&used_byte);
	int found;

	if (known == UNTRIED) {
		found = stacks_are_told() ? search(value) : NOT_THERE;
		if (found != NOT_THERE || ++searches == SEARCHES_MAX)
			store_release(&used_byte, found);
	} else if (!check(value)) {
		store(&used_byte, NOT_THERE);
	} else {
		store(&checks, load(&checks) + 1);
	}
}

bool destructors_are_told(const void *value)
{
	if (is_believed())
		return true;
	if (load(&used_byte) != NOT_THERE &&
	    !__atomic_exchange_n(&is_learning, 1, __ATOMIC_ACQUIRE)) {
		if (!is_believed() && load(&used_byte) != NOT_THERE)
			learn(value);
		__atomic_store_n(&is_learning, 0, __ATOMIC_RELEASE);
	}
	return false;
}

bool destructors_are_to_come(void)
{
	return has_objects || load(descriptor() + used_byte) != 0;
}

/* ---- thread_local objects */

int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *library);

/* Under glibc's version, and not as its default: so musl, which has no such function, does not
 * find this one either, and its programs go on by their own means. */
EXPORT int heddle_thread_atexit(void (*destructor)(void *), void *object, void *library);
__asm__(".symver heddle_thread_atexit, __cxa_thread_atexit_impl@GLIBC_2.18");

int heddle_thread_atexit(void (*destructor)(void *), void *object, void *library)
{
	has_objects = true;
	return REAL(__cxa_thread_atexit_impl)(destructor, object, library);
}
