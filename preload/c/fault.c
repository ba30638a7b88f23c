/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * When a thread uses more stack than it should: the guard below a tuned stack, and the tripwire
 * at the border of the High zone.
 *
 * A thread whose size the Stack Tuner chose gets an alternate signal stack, on which the fault in
 * its guard can still be told: one line, and a mark in the table, so that the next run gives its
 * kind more. Then the process dies as it would have. Where that stack lies: alternate.c.
 *
 * The tripwire is a page at the border that is closed when the thread starts and opened at the
 * first touch; the thread goes on. A system call that is given a buffer there fails instead
 * (EFAULT): that is why it has to be asked for.
 *
 * Invariants
 *   - Nothing is installed until a thread is tuned or a tripwire wanted.
 *   - A fault that is none of these two is the program's: see signals.c.
 *   - The handler allocates nothing and takes no lock.
 */
#define _GNU_SOURCE
#include "alternate.h"
#include "fault.h"
#include "preload.h"
#include "signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define FRAMES_MAX 48
/* What is left of smaller ones is too little to draw a border in. */
#define TRIPWIRE_STACK_MIN (128u << 10)
/* A frame larger than the guard may step over it. */
#define BEYOND_GUARD_MAX (1u << 20)

static int (*backtrace_function)(void **, int);
static void (*backtrace_write)(void *const *, int, int);

bool fault_wants_tripwire(void) { return plan_flag(HEDDLE_PLAN_TRIPWIRE); }

bool fault_concerns(const struct thread *thread)
{
	/* A filter may have come while it was being created. */
	if (!calls_allowed())
		return false;
	return (thread->flags & THREAD_TUNED) ||
	       (fault_wants_tripwire() && !(thread->flags & THREAD_USER_STACK) &&
		thread->stack_given >= TRIPWIRE_STACK_MIN);
}

/* ---- what is said */

static const char *text_at(uint32_t id, char *out, size_t room)
{
	const char *at = table.texts + (size_t)id * HEDDLE_TEXT_ALIGN;
	uint32_t length;

	if (!id)
		return "";
	memcpy(&length, at, sizeof(length));
	length = (uint32_t)min_u64(length, room - 1);
	memcpy(out, at + sizeof(length), length);
	out[length] = 0;
	/* The first line is the start function. */
	out[strcspn(out, "\n")] = 0;
	return out;
}

static void tell(const struct thread *thread, const char *what, uint64_t number, const char *after)
{
	const struct heddle_record *record = record_of(thread);
	char name[32], start[256];

	say("thread ", digits((uint64_t)record->tid), " \"",
	    text_at(record->name, name, sizeof(name)), "\" (started at ",
	    text_at(record->start, start, sizeof(start)), ") ", what, digits(number), after, NULL);
}

/* ---- the guard */

static uintptr_t stack_pointer_of(const void *context)
{
	const ucontext_t *machine = context;

#if defined(__x86_64__)
	return (uintptr_t)machine->uc_mcontext.gregs[REG_RSP];
#elif defined(__i386__)
	return (uintptr_t)machine->uc_mcontext.gregs[REG_ESP];
#elif defined(__aarch64__)
	return (uintptr_t)machine->uc_mcontext.sp;
#else
	(void)machine;
	return 0;
#endif
}

/* 0 where it is not known. */
static uintptr_t instruction_of(const void *context)
{
	const ucontext_t *machine = context;

#if defined(__x86_64__)
	return (uintptr_t)machine->uc_mcontext.gregs[REG_RIP];
#elif defined(__i386__)
	return (uintptr_t)machine->uc_mcontext.gregs[REG_EIP];
#elif defined(__aarch64__)
	return (uintptr_t)machine->uc_mcontext.pc;
#else
	(void)machine;
	return 0;
#endif
}

static bool is_overflow(const struct thread *thread, uintptr_t address, uintptr_t pointer)
{
	if (!(thread->flags & THREAD_TUNED) || address >= thread->stack_low)
		return false;
	if (thread->stack_low - address <= PAGE_SIZE)
		return true;
	return thread->stack_low - address <= BEYOND_GUARD_MAX &&
	       pointer < thread->stack_low + PAGE_SIZE;
}

static void tell_overflow(struct thread *thread)
{
	const uint64_t usable = thread->entry - thread->stack_low;

	if (thread->use)
		use_overflowed(thread->use, usable);
	store(&record_of(thread)->stack_peak, saturate(usable));
	store(&record_of(thread)->zone, HEDDLE_ZONE_HIGH);
	if (thread->kind && (kind_at(thread->kind)->flags & KIND_FORCED))
		tell(thread, "ran over the end of its stack, of ", thread->stack_given,
		     " bytes by the policy's word: it needs more there");
	else
		tell(thread, "ran over the end of its stack, for which heddle had chosen ",
		     thread->stack_given, " bytes: the next run gives it at least twice as much");
}

/* ---- the tripwire */

static uintptr_t border_page(const struct thread *thread)
{
	const uint64_t usable = thread->entry - thread->stack_low;
	const uintptr_t border = thread->entry - (uintptr_t)(usable / 100 * plan->high);

	return border & ~(uintptr_t)(PAGE_SIZE - 1);
}

static void set_tripwire(struct thread *thread)
{
	uintptr_t page;

	if (!thread->stack_low || (thread->flags & THREAD_USER_STACK))
		return;
	page = border_page(thread);
	/* Not where this function itself runs, nor in the guard's neighbourhood. */
	if (page <= thread->stack_low || page + 4 * PAGE_SIZE > thread->entry)
		return;
	if (mprotect((void *)page, PAGE_SIZE, PROT_NONE) == 0)
		thread->trip = page;
}

static bool is_tripped(const struct thread *thread, uintptr_t address)
{
	return thread->trip && address - thread->trip < PAGE_SIZE;
}

static void open_tripwire(struct thread *thread)
{
	mprotect((void *)thread->trip, PAGE_SIZE, PROT_READ | PROT_WRITE);
	thread->trip = 0;
}

void fault_backtrace(uintptr_t at)
{
	void *frames[FRAMES_MAX];
	int count, first = 0;

	if (!backtrace_function || !backtrace_write || plan_flag(HEDDLE_PLAN_QUIET))
		return;
	count = backtrace_function(frames, FRAMES_MAX);
	/* The ones before are the handler's. */
	while (first < count && (uintptr_t)frames[first] != at)
		first++;
	if (first == count)
		first = 0;
	backtrace_write(frames + first, count - first, STDERR_FILENO);
}

static void tell_trip(struct thread *thread, uintptr_t at)
{
	if (thread->use)
		use_flag(thread->use, HEDDLE_USE_TRIPPED);
	tell(thread, FAULT_TRIPPED, thread->entry - thread->stack_low, " bytes:");
	fault_backtrace(at);
}

/* ---- the handler */

static bool take_fault(struct thread *thread, siginfo_t *info, void *context)
{
	const uintptr_t address = (uintptr_t)info->si_addr;

	/* Only the kernel's word about an address, nobody else's. */
	if (!thread || info->si_code <= 0 || !process_has_table())
		return false;
	if (is_tripped(thread, address)) {
		open_tripwire(thread);
		tell_trip(thread, instruction_of(context));
		return true;
	}
	if (is_overflow(thread, address, stack_pointer_of(context)) &&
	    !(thread->flags & THREAD_OVERFLOWED)) {
		thread->flags |= THREAD_OVERFLOWED;
		tell_overflow(thread);
	}
	return false;
}

/* Whether this runs on the signal stack that we gave, not on one that the program has set. */
static bool is_on_own_stack(const struct thread *thread)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	return thread && thread->signal_stack &&
	       here - (uintptr_t)thread->signal_stack < thread->signal_bytes;
}

static void handle(int number, siginfo_t *info, void *context)
{
	struct thread *thread = current_thread;
	int error = errno;

	if (!take_fault(thread, info, context)) {
		/* On a stack of ours the program's handler would not be where it expects. */
		if (signals_is_plain(number) || is_on_own_stack(thread))
			signals_step_aside(number, info);
		else
			signals_pass_on(number, info, context);
	}
	errno = error;
}

/* Neither handlers nor threads may search or load anything, see real.c. */
void faults_begin(void)
{
	void *frame;

	signal_stacks_begin();
	if (!fault_wants_tripwire())
		return;
	backtrace_function = (__typeof__(backtrace_function))dlsym(RTLD_DEFAULT, "backtrace");
	backtrace_write = (__typeof__(backtrace_write))dlsym(RTLD_DEFAULT, "backtrace_symbols_fd");
	/* Its first call loads the unwinder. */
	if (backtrace_function && backtrace_write)
		(void)backtrace_function(&frame, 1);
	else
		(void)dlerror(); /* not for the program to read */
}

void fault_arm(void)
{
	signals_take(SIGSEGV, handle);
	signals_take(SIGBUS, handle);
}

/* ---- threads */

void fault_thread_begins(struct thread *thread)
{
	const stack_t ours = {.ss_sp = thread->signal_stack, .ss_size = thread->signal_bytes};
	int error = errno;

	/* A new thread has none of its own yet. */
	if (sigaltstack(&ours, NULL) != 0)
		thread->signal_stack = NULL;
	else if (fault_wants_tripwire())
		set_tripwire(thread);
	errno = error;
}

/* The signal stack may not be used once the frame that it lies in is gone. Where only our own
 * handler would, and only to tell of an overflow, that is not worth a system call per thread. */
void fault_thread_ends(struct thread *thread)
{
	const stack_t none = {.ss_flags = SS_DISABLE, .ss_size = MINSIGSTKSZ};
	int error = errno;
	stack_t now;

	if (thread->trip)
		open_tripwire(thread);
	else if (!signals_others_on_stack())
		return;
	/* The program may have set one of its own meanwhile. */
	if (calls_allowed() && sigaltstack(NULL, &now) == 0 && now.ss_sp == thread->signal_stack)
		(void)sigaltstack(&none, NULL);
	errno = error;
}
