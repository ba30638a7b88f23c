/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * How deep a stack was used, to the byte.
 *
 * Two steps: the kernel says which is the lowest page that was ever touched, and the first word
 * from there on that is not zero is the deepest use. Fresh stacks are zero, and what an ended
 * thread leaves behind is cleared in life.c.
 *
 *   1. A thread that caused no page fault touched no page that was not there before. On a stack
 *      that glibc gives again, what was there is known from the last thread's end: "window".
 *   2. PAGEMAP_SCAN (Linux 6.7): 0.6 us, 0.2 us more per further 2 MiB that it walks.
 *   3. /proc/thread-self/pagemap, 8 bytes per page.
 *   4. mincore(), where no descriptor is to be had. It overlooks pages that are in the swap.
 *
 * The kernel's collapsing of pages into huge ones (khugepaged) makes pages without a fault of the
 * thread's: where it does so to all memory, the window is not used.
 *
 * Invariant: only [stack_low, entry) is read; another thread's stack only by a system call that
 * fails where the memory is gone. A peak that cannot be known is not guessed.
 */
#define _GNU_SOURCE
#include "descriptor.h"
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* From <linux/fs.h>, which older systems have without them. */
struct scan_region {
	uint64_t start, end, categories;
};

struct scan_argument {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN_REQUEST _IOWR('f', 16, struct scan_argument)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)
#define ENTRY_TOUCHED (3ull << 62) /* in pagemap: present or swapped */

#define OPEN_ATTEMPTS_MAX 3

enum found { FOUND, FOUND_NONE, FOUND_ERROR };

/* What the slower ways read into, under the lock `slow`; on the stack it would be part of what
 * they look for. */
static uint64_t buffer[512];

static int open_pagemap(void)
{
	return descriptor_raised(open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC));
}

static int pagemap(void)
{
	int32_t known = load(&control->pagemap);
	int file;

	if (known > 0)
		return known - 1;
	if (known < 0)
		return -1;
	file = open_pagemap();
	known = 0;
	if (!__atomic_compare_exchange_n(&control->pagemap, &known, file < 0 ? -1 : file + 1,
					 false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		if (file >= 0)
			close(file);
		return known - 1;
	}
	return file;
}

/* Before the first thread is created: with one the kernel makes room for a high descriptor at once,
 * with several it waits until no processor looks at the smaller table any more: 10 ms and more. */
void peak_prepare(void)
{
	int error = errno;

	if (!load(&control->pagemap) && calls_allowed())
		(void)pagemap();
	errno = error;
}

/* The program closed the descriptor, or has another file there: it is not ours to close. */
static bool pagemap_lost(int attempt)
{
	if (errno != EBADF && errno != ENOTTY)
		return false;
	store(&control->pagemap, attempt + 1 < OPEN_ATTEMPTS_MAX ? 0 : -1);
	return true;
}

static enum found scan(uintptr_t low, uintptr_t high, uintptr_t *lowest)
{
	static uint32_t unknown; /* the kernel has no such request */
	struct scan_region region;
	struct scan_argument argument = {
		.size = sizeof(argument),
		.start = low,
		.end = high,
		.vec = (uintptr_t)&region,
		.vec_len = 1,
		.max_pages = 1,
		.category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
		.return_mask = SCAN_PRESENT | SCAN_SWAPPED,
	};
	int got = -1;

	for (int attempt = 0; attempt < OPEN_ATTEMPTS_MAX && !load(&unknown); attempt++) {
		int file = pagemap();

		if (file < 0)
			return FOUND_ERROR;
		got = ioctl(file, SCAN_REQUEST, &argument);
		if (got >= 0)
			break;
		/* An older kernel answers ENOTTY as well, and does so again on a fresh one. */
		if (!pagemap_lost(attempt) || (errno == ENOTTY && attempt > 0)) {
			store(&unknown, 1);
			store(&control->pagemap, 0);
		}
	}
	if (got < 0)
		return FOUND_ERROR;
	*lowest = (uintptr_t)region.start;
	return got > 0 ? FOUND : FOUND_NONE;
}

static enum found read_pagemap(uintptr_t low, uintptr_t high, uintptr_t *lowest)
{
	int file = pagemap();
	enum found found = FOUND_NONE;

	if (file < 0)
		return FOUND_ERROR;
	for (uintptr_t at = low; at < high && found == FOUND_NONE;) {
		const size_t pages = min_u64((high - at) / PAGE_SIZE, 512);
		const uint64_t offset = (uint64_t)at / PAGE_SIZE * 8;
		ssize_t got = pread64(file, buffer, pages * 8, (off64_t)offset);

		if (got != (ssize_t)(pages * 8))
			return FOUND_ERROR;
		for (size_t i = 0; i < pages && found == FOUND_NONE; i++) {
			*lowest = at + i * PAGE_SIZE;
			if (buffer[i] & ENTRY_TOUCHED)
				found = FOUND;
		}
		at += pages * PAGE_SIZE;
	}
	return found;
}

static enum found read_mincore(uintptr_t low, uintptr_t high, uintptr_t *lowest)
{
	unsigned char *in_core = (unsigned char *)buffer;

	for (uintptr_t at = low; at < high;) {
		const size_t pages = min_u64((high - at) / PAGE_SIZE, sizeof(buffer));
		const unsigned char *first;

		if (mincore((void *)at, pages * PAGE_SIZE, in_core) != 0)
			return FOUND_ERROR;
		first = memchr(in_core, 1, pages);
		if (first) {
			*lowest = at + (size_t)(first - in_core) * PAGE_SIZE;
			return FOUND;
		}
		at += pages * PAGE_SIZE;
	}
	return FOUND_NONE;
}

static COLD enum found lowest_otherwise(uintptr_t low, uintptr_t high, uintptr_t *lowest)
{
	enum found found;

	lock_take(&control->slow);
	found = read_pagemap(low, high, lowest);
	if (found == FOUND_ERROR)
		found = read_mincore(low, high, lowest);
	lock_give(&control->slow);
	return found;
}

/* The lowest page of [low, high) that was touched; both are whole pages. */
static enum found lowest_page(uintptr_t low, uintptr_t high, uintptr_t *lowest)
{
	enum found found;

	if (low >= high)
		return FOUND_NONE;
	found = scan(low, high, lowest);
	return found == FOUND_ERROR ? lowest_otherwise(low, high, lowest) : found;
}

/* The first word in [low, high) that is not zero, or high. */
static uintptr_t first_word(uintptr_t low, uintptr_t high)
{
	typedef uintptr_t several __attribute__((vector_size(16), may_alias));
	const uintptr_t *at = (const uintptr_t *)low;
	const uintptr_t *end = (const uintptr_t *)(high & ~(sizeof(*at) - 1));
	const size_t step = 4 * sizeof(several) / sizeof(*at);

	for (; low % sizeof(several) == 0 && at + step <= end; at += step) {
		const several *part = (const several *)at;
		const several any = part[0] | part[1] | part[2] | part[3];

		if (any[0] | any[1] | any[sizeof(any) / sizeof(*at) - 2] |
		    any[sizeof(any) / sizeof(*at) - 1])
			break;
	}
	while (at < end && *at == 0)
		at++;
	return at < end ? (uintptr_t)at : high;
}

/* ---- windows */

/* By the stack's lowest address: that and, in the low bits, the pages that were there below the
 * stack pointer when its last thread ended, all of them zero. One word, so that it is whole. */
#define WINDOWS 1024u /* a power of two */
#define WINDOW_PAGES_MAX 8u

static uintptr_t windows[WINDOWS];
static bool windows_are_kept;

void peak_begin(void)
{
	char text[64] = "";
	int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);

	memset(windows, 0, sizeof(windows));
	if (file >= 0) {
		/* Nothing read is as good as no such feature. */
		ssize_t got = read(file, text, sizeof(text) - 1);

		(void)got;
		close(file);
	}
	windows_are_kept = !strstr(text, "[always]");
}

static uintptr_t *window_of(const struct thread *thread)
{
	const uintptr_t number = thread->stack_low / PAGE_SIZE;

	return &windows[(number ^ (number >> 10)) & (WINDOWS - 1)];
}

/* The lowest page that may be in use, if that is known without asking the kernel. */
static bool window_page(const struct thread *thread, uintptr_t frame, uintptr_t *page)
{
	const uintptr_t window = load(window_of(thread)), pages = window & (PAGE_SIZE - 1);

	if (!pages || (window & ~(uintptr_t)(PAGE_SIZE - 1)) != thread->stack_low)
		return false;
	*page = (frame & ~(uintptr_t)(PAGE_SIZE - 1)) - (pages - 1) * PAGE_SIZE;
	return *page >= thread->stack_low;
}

/* After the thread at whose end only [page, ...) was there. What is there of more pages than
 * these is not worth a look at each of them. */
static void window_keep(const struct thread *thread, uintptr_t frame, uintptr_t page)
{
	const uintptr_t top = frame & ~(uintptr_t)(PAGE_SIZE - 1);
	const uintptr_t pages = (top - page) / PAGE_SIZE + 1;

	if (!windows_are_kept || (thread->flags & THREAD_USER_STACK))
		return;
	store(window_of(thread), pages > WINDOW_PAGES_MAX ? 0 : thread->stack_low | pages);
}

static bool is_located(const struct thread *thread)
{
	return thread->stack_low && thread->stack_low < thread->entry &&
	       thread->entry <= thread->stack_high;
}

static void describe(const struct thread *thread, uintptr_t page, uintptr_t lowest,
		     struct peak *peak)
{
	peak->lowest = lowest;
	peak->bytes = thread->entry - lowest;
	peak->resident = thread->stack_high - page;
	peak->is_whole = page <= thread->stack_low;
}

bool peak_of_self(const struct thread *thread, uintptr_t frame, bool faulted, struct peak *peak)
{
	uintptr_t page = frame & ~(uintptr_t)(PAGE_SIZE - 1), lowest = page;
	int error = errno;
	enum found found;

	if (!is_located(thread) || !calls_allowed())
		return false;
	if (!faulted && window_page(thread, frame, &page)) {
		describe(thread, page, first_word(page, frame), peak);
		return true;
	}
	found = lowest_page(thread->stack_low, page, &lowest);
	errno = error;
	if (found == FOUND_ERROR)
		return false;
	if (found == FOUND)
		page = lowest;
	describe(thread, page, first_word(max_u64(page, thread->stack_low), frame), peak);
	window_keep(thread, frame, page);
	return true;
}

/* As first_word, of memory that may vanish. By this thread's number: the process's own has no
 * memory any more once the main thread has ended. */
static bool first_word_of_other(uintptr_t low, uintptr_t high, uintptr_t *lowest)
{
	uintptr_t copy[256] __attribute__((aligned(16)));
	const int32_t tid = own_tid();

	for (uintptr_t at = low; at < high;) {
		const size_t bytes = min_u64(high - at, sizeof(copy));
		struct iovec here = {copy, bytes}, there = {(void *)at, bytes};

		if (process_vm_readv(tid, &here, 1, &there, 1, 0) != (ssize_t)bytes)
			return false;
		*lowest = first_word((uintptr_t)copy, (uintptr_t)copy + bytes) -
			  (uintptr_t)copy + at;
		if (*lowest < at + bytes)
			return true;
		at += bytes;
	}
	*lowest = high;
	return true;
}

bool peak_of_other(const struct thread *thread, struct peak *peak)
{
	const uintptr_t top = thread->entry & ~(uintptr_t)(PAGE_SIZE - 1);
	uintptr_t page = top, lowest;
	int error = errno;
	enum found found;
	bool done;

	if (!is_located(thread) || !calls_allowed())
		return false;
	found = lowest_page(thread->stack_low, top, &lowest);
	if (found == FOUND)
		page = lowest;
	done = found != FOUND_ERROR && first_word_of_other(page, thread->entry, &lowest);
	if (done)
		describe(thread, page, lowest, peak);
	errno = error;
	return done;
}

uint8_t zone_of(const struct thread *thread, uint64_t peak)
{
	const struct heddle_plan *it = load_acquire(&plan);
	const uint64_t usable = thread->entry - thread->stack_low;
	const uint32_t low = it ? it->low : 25, high = it ? it->high : 75;

	if (thread->flags & THREAD_UNLIMITED)
		return HEDDLE_ZONE_UNKNOWN;
	if (peak * 100 >= usable * high)
		return HEDDLE_ZONE_HIGH;
	return peak * 100 < usable * low ? HEDDLE_ZONE_LOW : HEDDLE_ZONE_NORMAL;
}

/* Into the record and the sums of the thread's kind. Fields that are valid by themselves. */
void peak_publish(struct thread *thread, const struct peak *peak)
{
	struct heddle_record *record = record_of(thread);

	store(&record->stack_peak, saturate(peak->bytes));
	store(&record->stack_resident, saturate(peak->resident));
	store(&record->zone, zone_of(thread, peak->bytes));
	if (thread->use)
		use_measured(thread->use, peak->bytes, peak->resident);
}
