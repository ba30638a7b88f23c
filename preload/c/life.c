/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread's life between libc and the program: its start, its end.
 *
 *   1. The new thread notes where its stack is and calls the program's start function.
 *   2. Its end follows the start function's return at once, where no destructor of the program is
 *      to come (destructors.c): that is how most threads end.
 *   3. Else its end is a destructor of a pthread key. Its value is set at the return, or by a
 *      cleanup handler where the thread ends by pthread_exit or cancellation. The first time the
 *      destructor only asks for another round, so that the program's own run before it measures.
 *
 * glibc gives the stack of an ended thread to a later one. So that the later one's peak is its
 * own, the ending thread clears what it used: the upper part by itself, as glibc gives the rest
 * back to the kernel; and what libc's own last steps leave behind is cleared at the next start.
 *
 * Invariant: the frame of life() stays until the program's start function has returned or was
 * unwound: peaks count from there, and a large signal stack lies in it.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* glibc keeps this much of an ended thread's stack (16 KiB, and less than a page), and returns
 * what lies below to the kernel. */
#define KEPT_MAX (24u << 10)
/* To ask what a thread of a shorter life used would cost more than a hundredth of it: it is taken
 * to have run all the while. */
#define SHORT_LIFE_NS 20000u
/* What libc's last steps may use of the stack after our last look. */
#define LAST_STEPS_BYTES 1024u

#if defined(__x86_64__)
#define STACK_POINTER(out) __asm__ volatile("movq %%rsp, %0" : "=r"(out))
#elif defined(__i386__)
#define STACK_POINTER(out) __asm__ volatile("movl %%esp, %0" : "=r"(out))
#elif defined(__aarch64__) || defined(__arm__)
#define STACK_POINTER(out) __asm__ volatile("mov %0, sp" : "=r"(out))
#else
#define STACK_POINTER(out) ((out) = (uintptr_t)__builtin_frame_address(0))
#endif

/* Zeros [low, high): a call would use the very stack that is being cleared. */
static inline __attribute__((always_inline)) void clear(uintptr_t low, uintptr_t high)
{
	uintptr_t at = low & ~(sizeof(uintptr_t) - 1);

#if defined(__x86_64__) || defined(__i386__)
	size_t words = (high - at) / sizeof(uintptr_t);

	__asm__ volatile("rep stos %2, (%0)" : "+D"(at), "+c"(words) : "a"((uintptr_t)0) : "memory");
#else
	for (; at < high; at += sizeof(uintptr_t))
		*(volatile uintptr_t *)at = 0;
#endif
}

/* ---- the new thread */

static void thread_begins(struct thread *thread)
{
	struct heddle_record *record = record_of(thread);
	struct heddle_place *place = &table.places[thread->slot];
	int32_t tid;
	uint32_t odd;

	current_thread = thread;
	store(&thread->handle, pthread_self());
	thread->began_ns = now_ns();
	stack_locate(thread);
	tid = stack_tid();
	lock_take(&thread->lock);
	odd = heddle_record_begin(record);
	store(&record->tid, tid);
	store(&record->state, HEDDLE_STATE_READY);
	place->stack_low = thread->stack_low;
	place->stack_high = thread->stack_high;
	place->entry = thread->stack_low ? thread->entry : 0;
	place->use = thread->use;
	place->flags = thread->flags & (THREAD_USER_STACK | THREAD_TUNED);
	heddle_record_end(record, odd);
	if (record->thread_class == HEDDLE_CLASS_TIME_CRITICAL)
		attributes_apply(thread);
	lock_give(&thread->lock);
	if (thread->signal_stack)
		fault_thread_begins(thread);
}

_Static_assert(THREAD_USER_STACK == HEDDLE_PLACE_USER_STACK && THREAD_TUNED == HEDDLE_PLACE_TUNED,
	       "one set of flags");

/* Calls the program's start function. The stack pointer at that call is where peaks count from. */
static __attribute__((noinline)) void *live(struct thread *thread)
{
	const start_function start = thread->start;
	void *const argument = thread->argument;
	uintptr_t pointer;
	void *result;

	STACK_POINTER(pointer);
	thread->entry = pointer;
	thread_begins(thread);
	if (!(thread->flags & THREAD_USER_STACK) && calls_allowed() && thread->stack_low &&
	    pointer - LAST_STEPS_BYTES > thread->stack_low)
		clear(pointer - LAST_STEPS_BYTES, pointer);
	result = start(argument);
	/* The call must be a call, not a jump with this frame gone. */
	__asm__ volatile("" : "+r"(result));
	return result;
}

/* ---- its end */

/* What the kernel counted of the calling thread. */
struct account {
	uint64_t cpu_ns;
	uint32_t switches;
	bool faulted; /* or not known */
};

static uint64_t ns_of(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}

/* getrusage() has what was added up at the kernel's last tick: up to 10 ms less. The clock adds up
 * first, for a quarter of a microsecond. */
static uint64_t exact_cpu_ns(void)
{
	struct timespec used;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) != 0)
		return 0;
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static void read_account(const struct thread *thread, struct account *account)
{
	const uint64_t life_ns = now_ns() - thread->began_ns;
	struct rusage usage;
	int error = errno;

	*account = (struct account){.faulted = true};
	if (calls_allowed() && getrusage(RUSAGE_THREAD, &usage) == 0) {
		account->cpu_ns = ns_of(usage.ru_utime) + ns_of(usage.ru_stime);
		account->switches = saturate((uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw);
		account->faulted = usage.ru_minflt + usage.ru_majflt != 0;
		account->cpu_ns =
			max_u64(account->cpu_ns, life_ns > SHORT_LIFE_NS ? exact_cpu_ns() : life_ns);
	}
	errno = error;
}

/* Publishes what became of the thread. What the process's end, or an exec that failed, has counted
 * already is not counted again. */
static void publish_end(struct thread *thread, const struct account *account)
{
	struct heddle_record *record = record_of(thread);
	const uint64_t before = record->cpu_ns, cpu_ns = max_u64(account->cpu_ns, before);

	store(&record->cpu_ns, cpu_ns);
	store(&record->switches, account->switches);
	store(&record->state, HEDDLE_STATE_FINISHED);
	if (thread->use)
		use_ended(thread->use, thread->stack_given, cpu_ns - before);
}

/* Measures, publishes, and returns the lowest address that the next thread must not find used. */
static __attribute__((noinline)) uintptr_t thread_finish(struct thread *thread, uintptr_t frame)
{
	const bool is_ours = !(thread->flags & THREAD_USER_STACK);
	struct peak peak = {.lowest = 0};
	struct account account;
	bool measured;

	read_account(thread, &account);
	measured = peak_of_self(thread, frame, account.faulted, &peak);
	lock_take(&thread->lock);
	__atomic_fetch_or(&thread->flags, THREAD_ENDED, __ATOMIC_RELAXED);
	lock_give(&thread->lock);
	if (measured)
		peak_publish(thread, &peak);
	publish_end(thread, &account);
	current_thread = NULL;
	thread_give(thread);
	/* Where memory is locked, libc cannot give what lies deeper back to the kernel. */
	if (!measured || !is_ours)
		return 0;
	return peak.is_whole ? peak.lowest : max_u64(peak.lowest, frame - KEPT_MAX);
}

/* What lies below this frame is measured, and cleared for the next thread. Not to be cancelled:
 * it would go with a lock, or without an end. */
static void thread_ends_here(struct thread *thread)
{
	uintptr_t pointer, lowest;

	STACK_POINTER(pointer);
	lowest = thread_finish(thread, pointer);
	if (lowest)
		clear(lowest, pointer);
}

#if defined(__x86_64__) || defined(__i386__)
#define ALIGN_STACK __attribute__((force_align_arg_pointer))
#else
#define ALIGN_STACK
#endif

/* The destructor of our key. After an asynchronous cancellation musl calls it with the stack as
 * the thread just had it, aligned or not. */
ALIGN_STACK void thread_end(void *argument)
{
	struct thread *thread = argument;
	int before;

	/* A forked child may end with its parent's slot: that is not there any more. */
	if (!process_has_table() || current_thread != thread)
		return;
	if (!(thread->flags & THREAD_SECOND_ROUND)) {
		thread->flags |= THREAD_SECOND_ROUND;
		/* The frame that its signal stack was in may be gone. */
		if (thread->signal_stack)
			fault_thread_ends(thread);
		if (pthread_setspecific(end_key(), thread) == 0)
			return;
	}
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	thread_ends_here(thread);
	(void)pthread_setcancelstate(before, NULL);
}

/* ---- both */

/* Whether what the thread began with is still there: a forked child may end with its parent's
 * slot, and that may be gone. */
static bool is_own(const struct thread *thread)
{
	return current_thread == thread && process_has_table();
}

static void *live_with_signal_stack(struct thread *thread)
{
	void *const result = live(thread);

	if (is_own(thread) && thread->signal_stack)
		fault_thread_ends(thread);
	return result;
}

static __attribute__((noinline)) void *live_above_signal_stack(struct thread *thread)
{
	void *const stack = __builtin_alloca(thread->signal_bytes);
	void *result;

	thread->signal_stack = stack;
	result = live_with_signal_stack(thread);
	__asm__ volatile("" : "+r"(result) : "r"(stack) : "memory");
	return result;
}

static void leave_to_key(void *thread)
{
	if (is_own(thread))
		(void)pthread_setspecific(end_key(), thread);
}

/* The start function has returned, with cancellation as it was `before`. */
static void thread_returned(struct thread *thread, int before)
{
	if (!is_own(thread))
		return;
	if (destructors_are_to_come() && pthread_setspecific(end_key(), thread) == 0)
		(void)pthread_setcancelstate(before, NULL);
	else
		thread_ends_here(thread);
}

static void *live_anyhow(struct thread *thread)
{
	if (!fault_concerns(thread)) {
		thread->signal_stack = NULL;
		return live(thread);
	}
	return thread->signal_stack ? live_with_signal_stack(thread)
				    : live_above_signal_stack(thread);
}

/* Both libcs have these under one name and of one shape; the headers' macros differ. glibc calls
 * the handler as it unwinds the frame that the buffer is in. */
struct cleanup {
	void *words[4];
};

extern void _pthread_cleanup_push(struct cleanup *, void (*)(void *), void *) __attribute__((weak));
extern void _pthread_cleanup_pop(struct cleanup *, int run) __attribute__((weak));

/* The start function of every thread. */
void *life(void *argument)
{
	struct thread *thread = argument;
	struct cleanup cleanup;
	void *result;
	int before;

	if (!_pthread_cleanup_push || !_pthread_cleanup_pop || !destructors_are_told(thread)) {
		(void)pthread_setspecific(end_key(), thread);
		return live_anyhow(thread);
	}
	_pthread_cleanup_push(&cleanup, leave_to_key, thread);
	result = live_anyhow(thread);
	/* Cancelled from here on, nobody would see its end. */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	_pthread_cleanup_pop(&cleanup, 0);
	thread_returned(thread, before);
	return result;
}
