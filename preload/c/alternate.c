/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Where threads' signal stacks lie, and how large they are.
 *
 * Mostly only our own handler runs there, and only to tell of an overflow. Then each slot has one
 * of its own beside the threads' stacks, for whichever thread has the slot. On the thread's stack
 * it would push all that the thread does several pages further down, to other memory than its
 * creation and its end use: a third of a microsecond per thread.
 *
 * Where handlers of the program may run there too, or a backtrace is written, it is larger and
 * lies on the thread's own stack, in the frame of life(): with a guard below, and gone with it.
 *
 * Invariants
 *   - A slot's signal stack is mapped as long as the slot is. In a forked child the one that the
 *     kernel knows as the surviving thread's stays.
 *   - Either way it is part of the size that the Stack Tuner gives: the sum stays the same.
 */
#define _GNU_SOURCE
#include "alternate.h"
#include "preload.h"
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* Beside the kernel's frame. Mostly no handler but ours runs there, and with mlockall() each page
 * counts. A program's handler that asks for a signal stack expects room as on any stack. */
#define FOREIGN_HANDLER_ROOM (60u << 10)
#define SIGNAL_STACK_ROOM (4u << 10)
/* The unwinder's share. */
#define BACKTRACE_ROOM (24u << 10)
/* Slots whose signal stacks are one mapping. */
#define SHARE 16u

_Static_assert(THREADS_STEP % SHARE == 0, "a mapping serves slots of one step");

/* What the kernel's frame takes on this processor. */
static size_t frame_bytes;

void signal_stacks_begin(void) { frame_bytes = max_u64(getauxval(AT_MINSIGSTKSZ), 2048); }

static size_t with_frame(size_t room)
{
	return (frame_bytes + room + PAGE_SIZE - 1) & ~(size_t)(PAGE_SIZE - 1);
}

size_t signal_stack_bytes(void)
{
	if (signals_others_on_stack())
		return with_frame(FOREIGN_HANDLER_ROOM);
	return with_frame(SIGNAL_STACK_ROOM + (fault_wants_tripwire() ? BACKTRACE_ROOM : 0));
}

static COLD void make_room(const struct thread *thread)
{
	struct thread *first = thread_at(thread->slot - thread->slot % SHARE);
	const size_t each = with_frame(SIGNAL_STACK_ROOM);
	int error = errno;
	char *room;

	lock_take(&control->grow);
	if (!first->signal_room) {
		room = mmap(NULL, SHARE * each, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (uint32_t i = SHARE; room != MAP_FAILED && i-- > 0;)
			store_release(&first[i].signal_room, room + i * each);
	}
	lock_give(&control->grow);
	errno = error;
}

void *signal_stack_apart(struct thread *thread)
{
	if (signals_others_on_stack() || fault_wants_tripwire())
		return NULL;
	if (!load_acquire(&thread->signal_room))
		make_room(thread);
	return load_acquire(&thread->signal_room);
}

void signal_stacks_forget(struct thread *step)
{
	const size_t bytes = SHARE * with_frame(SIGNAL_STACK_ROOM);
	stack_t now = {.ss_sp = NULL};

	for (uint32_t i = 0; i < THREADS_STEP; i += SHARE) {
		char *const room = step[i].signal_room;

		if (!room || (!now.ss_sp && sigaltstack(NULL, &now) != 0))
			continue;
		if ((uintptr_t)now.ss_sp - (uintptr_t)room >= bytes)
			munmap(room, bytes);
	}
}
