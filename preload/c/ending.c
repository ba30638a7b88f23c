/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The process's orderly end: the peaks of all threads that still live, the first one's too.
 *
 * Runs after the program's own exit handlers, in the library's destructor, and before _exit().
 *
 * Invariant: once per process, and only in the process that made the table: a child that vfork()
 * left in this memory has another number.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Threads that have ended did so themselves. An exec that fails is no second end. */
static void measure_cpu(struct thread *thread)
{
	struct heddle_record *record = record_of(thread);
	const uint64_t cpu_ns = calls_allowed() ? cpu_ns_of(load(&record->tid)) : 0;
	const uint64_t before = record->cpu_ns;

	if (cpu_ns <= before)
		return;
	store(&record->cpu_ns, cpu_ns);
	if (thread->use)
		use_cpu(thread->use, cpu_ns - before);
}

/* A thread that is about to end waits here for us, so that its stack stays. One that holds its
 * lock has measured itself. */
static void measure_living(struct thread *thread)
{
	struct peak peak;

	if (!load(&thread->holders) || !lock_try(&thread->lock))
		return;
	if (!(load(&thread->flags) & THREAD_ENDED)) {
		struct thread seen = *thread;

		if (seen.flags & THREAD_MAIN && calls_allowed())
			seen.stack_low = stack_main_low(thread);
		if (peak_of_other(&seen, &peak))
			peak_publish(thread, &peak);
		measure_cpu(thread);
	}
	lock_give(&thread->lock);
}

static bool is_free(struct lock *lock)
{
	if (!lock_take_briefly(lock))
		return false;
	lock_give(lock);
	return true;
}

void process_ends(void)
{
	struct control *here = load_acquire(&control);
	uint32_t taken;
	int error;

	/* A filter on system calls may kill who asks for anything but its end. A child that has
	 * this memory may have no errno: sandboxes make such with an empty thread-local storage. */
	if (!process_has_table() || calls_filtered() || here->pid != (int32_t)getpid() ||
	    __atomic_exchange_n(&here->measured, 1, __ATOMIC_ACQ_REL))
		return;
	error = errno;
	/* A handler may have interrupted us in the middle of a change, and now ends the process. */
	if (!is_free(&here->uses) || !is_free(&here->slow))
		return;
	host_process_ends();
	taken = load_acquire(&here->taken);
	for (uint32_t slot = 0; slot < taken; slot++)
		measure_living(thread_at(slot));
	if (calls_allowed())
		__atomic_fetch_or(&table.header->flags, HEDDLE_TABLE_ENDED, __ATOMIC_RELEASE);
	errno = error;
}

/* Only a run comes back for the table of a process that has ended. For another library's nobody
 * does, and _exit() does not let that remove it. */
static void leave(void)
{
	const bool is_awaited = plan && plan->run;

	process_ends();
	if (!process_has_table() || !calls_allowed() || control->pid != (int32_t)getpid())
		return;
	host_table_unlink();
	if (!is_awaited)
		table_unlink();
}

__attribute__((destructor)) static void destructor(void)
{
	leave();
}

/* exec failed: this process lives on. */
void process_goes_on(void)
{
	struct control *here = load_acquire(&control);

	/* None of this changes errno. */
	if (process_has_table() && !calls_filtered() && here->pid == (int32_t)getpid()) {
		__atomic_fetch_and(&table.header->flags, ~HEDDLE_TABLE_ENDED, __ATOMIC_RELEASE);
		store(&here->measured, 0);
	}
}

EXPORT __attribute__((noreturn)) void _exit(int status)
{
	leave();
	REAL(_exit)(status);
	__builtin_unreachable();
}

/* Without a look at what the program's handlers do now. */
EXPORT __attribute__((noreturn)) void quick_exit(int status)
{
	leave();
	REAL(quick_exit)(status);
	__builtin_unreachable();
}

EXPORT __attribute__((noreturn)) void _Exit(int status)
{
	leave();
	REAL(_exit)(status);
	__builtin_unreachable();
}
