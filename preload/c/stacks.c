/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Where threads' stacks lie.
 *
 * pthread_getattr_np() knows, but glibc's asks the kernel for the thread's CPUs too, with malloc
 * in between: 1 us. The block's address, its size and the guard's are three consecutive words of
 * glibc's thread descriptor, of which the block is the only such thing that ends on the
 * descriptor's own page and holds the stack pointer. They are searched in the first thread, and
 * looked at with the same test in each further one.
 *
 * Invariant: what is written down holds the stack pointer, is whole pages, and does not include
 * the guard. What cannot be known so is 0.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define UNTRIED 0
#define NOT_THERE (-1)

/* Words from the descriptor's begin to the block's address. */
static int block_word = UNTRIED;

static uintptr_t page_end(uintptr_t address) { return (address | (PAGE_SIZE - 1)) + 1; }

static bool is_block(const uintptr_t *words, uintptr_t end, uintptr_t inside)
{
	const uintptr_t block = words[0], size = words[1], guard = words[2];

	return block % PAGE_SIZE == 0 && block < inside && size % PAGE_SIZE == 0 &&
	       block + size == end && guard % PAGE_SIZE == 0 && guard < size &&
	       block + guard < inside;
}

/* Only within the descriptor's page, which is readable to its end. */
static int search_block(uintptr_t descriptor, uintptr_t inside)
{
	const uintptr_t end = page_end(descriptor);
	const int words = (int)((end - descriptor) / sizeof(uintptr_t));

	for (int word = 1; word + 3 <= words; word++) {
		if (is_block((const uintptr_t *)descriptor + word, end, inside))
			return word;
	}
	return NOT_THERE;
}

/* ---- the thread's number
 *
 * gettid() is a tenth of all that we cost. The kernel writes the number into glibc's descriptor
 * before the thread runs: the word is searched in one thread, found again in another, and only
 * then believed. */

#define TID_CHECKS 2

static int tid_word = UNTRIED;
static uint32_t tid_checks;

/* The only word of the descriptor that holds the number. */
static int search_tid(const int32_t *descriptor, int32_t tid)
{
	const int words = (int)((page_end((uintptr_t)descriptor) - (uintptr_t)descriptor) /
				sizeof(*descriptor));
	int found = NOT_THERE;

	for (int word = 1; word < words; word++) {
		if (descriptor[word] != tid)
			continue;
		if (found != NOT_THERE)
			return NOT_THERE;
		found = word;
	}
	return found;
}

static COLD int32_t learn_tid(const int32_t *descriptor, int word)
{
	const int32_t tid = own_tid();

	if (load(&block_word) <= 0 || word == NOT_THERE)
		return tid;
	if (word == UNTRIED)
		store(&tid_word, search_tid(descriptor, tid));
	else if (descriptor[word] != tid)
		store(&tid_word, NOT_THERE);
	else
		__atomic_fetch_add(&tid_checks, 1, __ATOMIC_RELAXED);
	return tid;
}

int32_t stack_tid(void)
{
	const int32_t *descriptor = (const int32_t *)(uintptr_t)pthread_self();
	const int word = load(&tid_word);

	if (word > 0 && load(&tid_checks) >= TID_CHECKS && descriptor[word] > 0)
		return descriptor[word];
	return learn_tid(descriptor, word);
}

/* ---- the stack */

bool stacks_are_told(void) { return load(&block_word) > 0; }

static bool locate_by_descriptor(struct thread *thread, uintptr_t inside)
{
	const uintptr_t descriptor = (uintptr_t)pthread_self();
	int word = load(&block_word);
	const uintptr_t *words;

	if (word == UNTRIED) {
		word = descriptor % sizeof(uintptr_t) ? NOT_THERE
						      : search_block(descriptor, inside);
		store(&block_word, word);
	}
	if (word == NOT_THERE)
		return false;
	words = (const uintptr_t *)descriptor + word;
	if (!is_block(words, page_end(descriptor), inside))
		return false;
	thread->stack_low = words[0] + words[2];
	thread->stack_high = words[0] + words[1];
	return true;
}

static void locate_by_library(struct thread *thread)
{
	pthread_attr_t attributes;
	void *low = NULL;
	size_t size = 0;

	if (pthread_getattr_np(pthread_self(), &attributes) != 0)
		return;
	if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
		thread->stack_low = (uintptr_t)low;
		thread->stack_high = (uintptr_t)low + size;
	}
	pthread_attr_destroy(&attributes);
}

/* Of the calling thread, which is about to run its start function. */
void stack_locate(struct thread *thread)
{
	const uintptr_t inside = (uintptr_t)__builtin_frame_address(0);

	/* The creator knew where memory lies that the program gave. */
	if (thread->flags & THREAD_USER_STACK)
		return;
	if (!locate_by_descriptor(thread, inside))
		locate_by_library(thread);
	if (inside < thread->stack_low || inside >= thread->stack_high) {
		thread->stack_low = 0;
		thread->stack_high = 0;
	}
}

/* ---- the first thread: the kernel's [stack] */

struct lines {
	int file;
	size_t used;
	size_t at;
	char buffer[1024];
};

/* The next byte of a file, -1 at its end. */
static int next_byte(struct lines *lines)
{
	if (lines->at == lines->used) {
		ssize_t got = read(lines->file, lines->buffer, sizeof(lines->buffer));

		if (got <= 0)
			return -1;
		lines->used = (size_t)got;
		lines->at = 0;
	}
	return (uint8_t)lines->buffer[lines->at++];
}

static int digit(int byte)
{
	if (byte >= '0' && byte <= '9')
		return byte - '0';
	return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Reads "LOW-HIGH ..." to the line's end. */
static bool next_range(struct lines *lines, uintptr_t range[2])
{
	int byte = next_byte(lines), side = 0;

	range[0] = range[1] = 0;
	for (; byte >= 0 && byte != '\n' && side < 2; byte = next_byte(lines)) {
		if (digit(byte) >= 0)
			range[side] = range[side] * 16 + (uintptr_t)digit(byte);
		else
			side++;
	}
	while (byte >= 0 && byte != '\n')
		byte = next_byte(lines);
	return range[1] != 0;
}

/* The mapping that holds `address`, and the end of the one below it. Asked by this thread's
 * number: what goes by the process's is empty once the main thread has ended. */
static bool find_mapping(uintptr_t address, uintptr_t range[2], uintptr_t *below)
{
	struct lines lines = {.file = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC)};
	bool found = false;

	if (lines.file < 0)
		return false;
	*below = 0;
	while (!found && next_range(&lines, range)) {
		found = address >= range[0] && address < range[1];
		if (!found)
			*below = range[1];
	}
	close(lines.file);
	return found;
}

/* Where the kernel put the first thread's stack pointer: field 28 of /proc/self/stat. */
static uintptr_t start_stack(void)
{
	char text[1024];
	int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t got = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
	uintptr_t value = 0;
	const char *at;

	if (file >= 0)
		close(file);
	if (got <= 0)
		return 0;
	text[got] = 0;
	at = strrchr(text, ')');
	for (int field = 2; at && field < 28; field++)
		at = strchr(at + 1, ' ');
	for (at = at ? at + 1 : ""; *at >= '0' && *at <= '9'; at++)
		value = value * 10 + (uintptr_t)(*at - '0');
	return value;
}

/* Without a limit, what is looked at: a stack has to end somewhere. */
#define UNLIMITED_ROOM ((uintptr_t)1 << 30)

/* The stack may grow down to its limit, or to where another mapping is in its way. */
void stack_locate_main(struct thread *thread)
{
	const uintptr_t entry = start_stack();
	uintptr_t range[2], below = 0;
	struct rlimit limit;
	uintptr_t room;

	if (!entry || !find_mapping(entry, range, &below))
		return;
	room = range[1] - below;
	if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
		limit.rlim_cur = UNLIMITED_ROOM;
		thread->flags |= THREAD_UNLIMITED;
	}
	if (limit.rlim_cur < room)
		room = (uintptr_t)limit.rlim_cur & ~(uintptr_t)(PAGE_SIZE - 1);
	thread->stack_high = range[1];
	thread->stack_low = range[1] - room;
	if (thread->stack_low > range[0])
		thread->stack_low = range[0];
	thread->entry = entry;
}

/* How far the kernel has let it grow: all that was touched is in there, and nothing else is. */
uintptr_t stack_main_low(const struct thread *thread)
{
	uintptr_t range[2], below = 0;

	if (!thread->entry || !find_mapping(thread->entry - 1, range, &below))
		return thread->stack_low;
	return max_u64(range[0], thread->stack_low);
}
