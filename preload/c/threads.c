/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Slots: who has which record.
 *
 * Invariants
 *   - A slot is given out to one thread at a time; `generation` of its record grows each time.
 *   - Slots live in steps of THREADS_STEP, are never moved, and lie outside of malloc. The list
 *     of free ones needs no lock: its head carries a count, so that a head that was taken and put
 *     back meanwhile is not mistaken for the one that was read.
 */
#define _GNU_SOURCE
#include "alternate.h"
#include "preload.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

THREAD_LOCAL struct thread *current_thread;

/* The steps of an earlier process that this one was forked from, to be given back. */
static struct thread *inherited[THREADS_MAX / THREADS_STEP];

bool threads_begin(void)
{
	for (size_t i = 0; i < THREADS_MAX / THREADS_STEP; i++) {
		if (inherited[i]) {
			signal_stacks_forget(inherited[i]);
			munmap(inherited[i], THREADS_STEP * sizeof(struct thread));
		}
		inherited[i] = NULL;
	}
	return true;
}

struct thread *thread_at(uint32_t slot)
{
	return &control->chunks[slot / THREADS_STEP][slot % THREADS_STEP];
}

/* One step more. The caller holds `grow`. */
static bool add_step(void)
{
	const uint32_t first = control->slots, step = first / THREADS_STEP;
	const size_t bytes = THREADS_STEP * sizeof(struct thread);
	struct thread *threads;

	if (first >= table.capacity || !table_back(first + 1))
		return false;
	threads = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (threads == MAP_FAILED)
		return false;
	for (uint32_t i = 0; i < THREADS_STEP; i++)
		threads[i].slot = first + i;
	control->chunks[step] = threads;
	inherited[step] = threads;
	store_release(&control->slots, first + THREADS_STEP);
	return true;
}

static struct thread *take_new(void)
{
	struct thread *thread = NULL;
	uint32_t slot;

	lock_take(&control->grow);
	slot = control->taken;
	if (slot < table.capacity && (slot < control->slots || add_step())) {
		thread = thread_at(slot);
		store_release(&control->taken, slot + 1);
		store_release(&table.header->high_water, slot + 1);
	}
	lock_give(&control->grow);
	return thread;
}

struct thread *thread_take(void)
{
	uint64_t head = load_acquire(&control->free_list);
	struct thread *thread = NULL;
	int error = errno;

	while ((uint32_t)head) {
		uint64_t next;

		thread = thread_at((uint32_t)head - 1);
		next = (((head >> 32) + 1) << 32) | load(&thread->next_free);
		if (__atomic_compare_exchange_n(&control->free_list, &head, next, true,
						__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
			return thread;
		thread = NULL;
	}
	thread = take_new();
	if (!thread && !__atomic_exchange_n(&control->partial, 1, __ATOMIC_RELAXED)) {
		__atomic_fetch_or(&table.header->flags, HEDDLE_TABLE_PARTIAL, __ATOMIC_RELAXED);
		say("the thread table is full: further threads are not shown", NULL);
	}
	errno = error;
	return thread;
}

static void put_free(struct thread *thread)
{
	struct heddle_record *record = record_of(thread);
	uint64_t head = load(&control->free_list), next;
	const uint32_t odd = heddle_record_begin(record);

	store(&record->state, HEDDLE_STATE_FREE);
	store(&record->kind, HEDDLE_KIND_FREE);
	heddle_record_end(record, odd);
	do {
		store(&thread->next_free, (uint32_t)head);
		next = (((head >> 32) + 1) << 32) | (thread->slot + 1);
	} while (!__atomic_compare_exchange_n(&control->free_list, &head, next, true,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

void thread_give(struct thread *thread)
{
	if (__atomic_sub_fetch(&thread->holders, 1, __ATOMIC_ACQ_REL) == 0)
		put_free(thread);
}

struct thread *thread_find(pthread_t handle)
{
	struct thread *self = current_thread;
	uint32_t taken;

	/* First: a forked child still has its parent's slot, whose record is the parent's. */
	if (!process_has_table())
		return NULL;
	if (self && load(&self->handle) == handle)
		return self;
	taken = load_acquire(&control->taken);
	for (uint32_t slot = 0; slot < taken; slot++) {
		struct thread *thread = thread_at(slot);

		if (load(&thread->handle) == handle && load(&thread->holders) &&
		    !(load(&thread->flags) & THREAD_ENDED))
			return thread;
	}
	return NULL;
}
