/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * pthread_create() and thrd_create(), as the creator sees them; what the new thread does is in
 * life.c.
 *
 * The creator takes a slot, finds the kind, chooses the size of the stack, writes the record, and
 * calls the real pthread_create with our start function and the slot as its argument.
 *
 * Invariant: the real function decides what happens. Ours only adds a slot, and where it has none
 * the program's call goes through unchanged. The program's attributes are never written to.
 */
#define _GNU_SOURCE
#include "alternate.h"
#include "preload.h"

#include <errno.h>
#include <heddle/host.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

/* Where the user does not say otherwise no stack is smaller (TUNED_BYTES_MIN in row.rs). */
#define TUNED_MIN (64u << 10)

struct creation {
	struct thread *thread;
	const pthread_attr_t *attributes; /* to create with */
	pthread_attr_t copy;              /* in use if the size was tuned */
	struct use_birth birth;
	void *stack;  /* of the program's */
	int priority; /* of SCHED_HEDDLE, -1 none */
	size_t signal_bytes;
	void *signal_stack; /* 0: to lie on the thread's own */
	bool tuned;
	bool copied;
};

/* 0: to be asked for. The same until the program changes it. */
static size_t default_bytes;

static COLD size_t learn_default_size(void)
{
	pthread_attr_t attributes;
	size_t size = 0;

	pthread_attr_init(&attributes);
	pthread_attr_getstacksize(&attributes, &size);
	pthread_attr_destroy(&attributes);
	store(&default_bytes, size);
	return size;
}

size_t default_stack_bytes(void)
{
	const size_t known = load(&default_bytes);

	return known ? known : learn_default_size();
}

EXPORT int pthread_setattr_default_np(const pthread_attr_t *attributes)
{
	const int result = REAL(pthread_setattr_default_np)(attributes);

	store(&default_bytes, 0);
	return result;
}

static void read_attributes(struct creation *it, const pthread_attr_t *attributes)
{
	const size_t usual = default_stack_bytes();
	void *stack = NULL;
	size_t size = usual;

	it->attributes = attributes;
	it->birth.asked = usual;
	if (!attributes)
		return;
	pthread_attr_getstacksize(attributes, &size);
	it->birth.asked = size;
	if (size != usual)
		it->birth.flags |= HEDDLE_USE_EXPLICIT;
	/* glibc says "the size below address 0" where there is no stack; musl says an error. */
	if (pthread_attr_getstack(attributes, &stack, &size) == 0 && size &&
	    (uintptr_t)stack + size != 0) {
		it->stack = stack;
		it->birth.flags |= HEDDLE_USE_USER_STACK;
	}
}

bool stack_is_chosen(const struct kind *kind, uint32_t birth_flags)
{
	const struct heddle_plan *all = load_acquire(&plan);

	if (!all || !kind->stack_rule || (birth_flags & HEDDLE_USE_USER_STACK))
		return false;
	if (kind->flags & KIND_FORCED)
		return true;
	if (all->stacks == HEDDLE_STACKS_AUTO)
		return !(birth_flags & HEDDLE_USE_EXPLICIT);
	return all->stacks != HEDDLE_STACKS_OBSERVE;
}

/* The size that the Stack Tuner gives, or 0. */
static size_t tuned_size(const struct creation *it, const struct kind *kind)
{
	const bool forced = kind->flags & KIND_FORCED;
	size_t size;

	/* Under a filter no signal stack can be had, on which an overflow could be told. */
	if (!stack_is_chosen(kind, it->birth.flags) || !calls_allowed())
		return 0;
	/* Thread-local storage and the signal stack are in it too, and no part of its peak. The sum
	 * is the same for all threads, so that libc can use a stack again. */
	size = kind->stack_rule + control->overhead + it->signal_bytes;
	/* A signal's frame takes 12 KiB on some processors: part of the least size, not on top. */
	if (!forced)
		size = max_u64(size, TUNED_MIN);
	return (size + PAGE_SIZE - 1) & ~(size_t)(PAGE_SIZE - 1);
}

/* Shallow: what the attributes point at stays the program's, and is only read. */
static bool copy_attributes(struct creation *it, const pthread_attr_t *attributes)
{
	if (it->copied)
		return true;
	if (!attributes && pthread_getattr_default_np(&it->copy) != 0)
		return false;
	if (attributes)
		it->copy = *attributes;
	it->attributes = &it->copy;
	it->copied = true;
	return true;
}

static void tune(struct creation *it, const pthread_attr_t *attributes, size_t size)
{
	size_t guard = 0;

	if (!copy_attributes(it, attributes))
		return;
	pthread_attr_getguardsize(&it->copy, &guard);
	if (guard < PAGE_SIZE)
		(void)pthread_attr_setguardsize(&it->copy, PAGE_SIZE);
	it->signal_stack = signal_stack_apart(it->thread);
	if (it->signal_stack &&
	    pthread_attr_setstacksize(&it->copy, size - it->signal_bytes) != 0)
		it->signal_stack = NULL;
	if (it->signal_stack || pthread_attr_setstacksize(&it->copy, size) == 0) {
		it->tuned = true;
		it->birth.given = size;
		it->birth.flags |= HEDDLE_USE_TUNED;
	}
}

static uint8_t policy_of(const pthread_attr_t *attributes)
{
	const struct thread *creator = current_thread;
	int inherit = PTHREAD_INHERIT_SCHED, policy = 0;

	if (attributes && pthread_attr_getinheritsched(attributes, &inherit) == 0 &&
	    inherit == PTHREAD_EXPLICIT_SCHED &&
	    pthread_attr_getschedpolicy(attributes, &policy) == 0)
		return (uint8_t)policy;
	/* What we raised was raised without its children. */
	if (!creator || (creator->attributes & ATTRIBUTES_RAISED))
		return SCHED_OTHER;
	return load(&record_of(creator)->policy);
}

static void write_record(const struct creation *it, const struct kind *kind)
{
	struct thread *thread = it->thread;
	struct heddle_record *record = record_of(thread);
	uint32_t odd = heddle_record_begin(record);

	store(&record->generation, record->generation + 1);
	record->tid = 0;
	record->worker = HEDDLE_WORKER_NONE;
	record->state = HEDDLE_STATE_NEW;
	record->kind = HEDDLE_KIND_KERNEL_THREAD;
	record->policy = policy_of(it->attributes);
	record->zone = HEDDLE_ZONE_UNKNOWN;
	record->start = kind->start_text;
	record->stack_size = saturate(it->birth.given);
	record->stack_peak = 0;
	record->stack_resident = 0;
	record->created_ns = thread->created_ns;
	record->cpu_ns = 0;
	record->switches = 0;
	record->name = 0;
	attributes_of_kind(record, kind);
	if (it->priority >= 0) {
		record->thread_class =
			it->priority ? HEDDLE_CLASS_TIME_CRITICAL : HEDDLE_CLASS_LAZY;
		record->priority = (uint8_t)it->priority;
		thread->attributes = ATTRIBUTES_BY_PROGRAM | ATTRIBUTES_POLICY;
	}
	table.places[thread->slot] = (struct heddle_place){.use = thread->use};
	heddle_record_end(record, odd);
}

static void fill_slot(const struct creation *it, start_function start, void *argument)
{
	struct thread *thread = it->thread;

	thread->start = start;
	thread->argument = argument;
	store(&thread->handle, 0);
	thread->stack_low = (uintptr_t)it->stack;
	thread->stack_high = it->stack ? (uintptr_t)it->stack + it->birth.given : 0;
	thread->entry = 0;
	thread->trip = 0;
	thread->signal_stack = it->signal_stack;
	thread->signal_bytes = it->signal_bytes;
	thread->created_ns = now_ns();
	thread->stack_asked = it->birth.asked;
	thread->stack_given = it->birth.given;
	thread->attributes = 0;
	thread->use_flags = it->birth.flags;
	thread->flags = (it->stack ? THREAD_USER_STACK : 0) | (it->tuned ? THREAD_TUNED : 0);
	/* Last: with holders the slot counts as a living thread's. */
	store_release(&thread->holders, 2);
}

static void not_created(struct creation *it)
{
	struct thread *thread = it->thread;

	if (thread->use) {
		use_not_created(thread->use, &it->birth);
		use_failed(thread->use, &it->birth);
	}
	thread->flags |= THREAD_ENDED;
	store(&thread->holders, 1);
	thread_give(thread);
}

/* The real creation with the program's own size, after a tuned one failed. */
static void untune(struct creation *it)
{
	struct thread *thread = it->thread;

	if (thread->use)
		use_not_created(thread->use, &it->birth);
	it->birth.given = it->birth.asked;
	it->birth.flags &= ~HEDDLE_USE_TUNED;
	(void)pthread_attr_setstacksize(&it->copy, it->birth.asked);
	thread->stack_given = it->birth.given;
	thread->flags &= ~THREAD_TUNED;
	thread->signal_stack = NULL;
	store(&record_of(thread)->stack_size, saturate(it->birth.given));
	if (thread->use)
		use_created(thread->use, &it->birth);
}

/* Whether the calling thread has what the Mediator gave it, and its program never asked for. */
static COLD bool creator_is_lowered(void)
{
	const struct thread *creator = current_thread;

	if (!plan_flag(HEDDLE_PLAN_MEDIATED) || !creator || !calls_allowed())
		return false;
	/* By number: musl's function refuses. */
	return load(&record_of(creator)->policy) != SCHED_IDLE &&
	       (syscall(SYS_sched_getscheduler, 0) & ~SCHED_RESET_ON_FORK) == SCHED_IDLE;
}

/* An ordinary user may not leave SCHED_IDLE, so a thread that is to have its own policy cannot be
 * created by a lowered one. It begins as its creator is, and the Mediator sees to the rest. */
static COLD int create_as_creator(pthread_t *handle, struct creation *it)
{
	if (!creator_is_lowered() || policy_of(it->attributes) != SCHED_OTHER ||
	    !copy_attributes(it, it->attributes))
		return EPERM;
	(void)pthread_attr_setinheritsched(&it->copy, PTHREAD_INHERIT_SCHED);
	return REAL(pthread_create)(handle, it->attributes, life, it->thread);
}

static int create(pthread_t *handle, struct creation *it)
{
	struct thread *thread = it->thread;
	int result;

	if (thread->use)
		use_created(thread->use, &it->birth);
	result = REAL(pthread_create)(handle, it->attributes, life, thread);
	if (result != 0 && it->tuned) {
		untune(it);
		result = REAL(pthread_create)(handle, it->attributes, life, thread);
	}
	if (result == EPERM)
		result = create_as_creator(handle, it);
	if (result != 0) {
		not_created(it);
		return result;
	}
	/* So that it can be named before it has begun. Once it has, it has said its handle itself,
	 * and may have freed the memory that the program gave for it; the slot is still ours. */
	if (!load(&thread->handle)) {
		pthread_t unknown = 0;

		(void)__atomic_compare_exchange_n(&thread->handle, &unknown, *handle, false,
						  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	thread_give(thread);
	return 0;
}

static int create_known(pthread_t *handle, const pthread_attr_t *attributes,
			const struct heddle_host_call *call)
{
	struct creation it = {.priority = -1};
	uint32_t index = kind_of(call->start, call->argument, call->site);
	static const struct kind unknown = {.group = HEDDLE_GROUP_NORMAL};
	const struct kind *kind = index ? kind_at(index) : &unknown;
	size_t tuned;
	int result;

	it.thread = thread_take();
	if (!it.thread)
		return REAL(pthread_create)(handle, attributes, call->run, call->run_argument);
	peak_prepare();
	read_attributes(&it, attributes);
	it.birth.given = it.birth.asked;
	if (attr_is_heddle(attributes) && copy_attributes(&it, attributes))
		it.priority = attr_make_ordinary(&it.copy);
	it.signal_bytes = signal_stack_bytes();
	tuned = tuned_size(&it, kind);
	if (tuned)
		tune(&it, attributes, tuned);
	if (it.tuned || fault_wants_tripwire())
		fault_arm();
	it.thread->kind = index;
	it.thread->use = kind->use;
	fill_slot(&it, call->run, call->run_argument);
	write_record(&it, kind);
	result = create(handle, &it);
	if (it.copied && !attributes)
		pthread_attr_destroy(&it.copy);
	return result;
}

int create_from(pthread_t *handle, const pthread_attr_t *attributes,
		const struct heddle_host_call *call)
{
	int error = errno, result;

	if (!process_ready())
		return REAL(pthread_create)(handle, attributes, call->run, call->run_argument);
	result = create_known(handle, attributes, call);
	errno = error;
	return result;
}

EXPORT int pthread_create(pthread_t *handle, const pthread_attr_t *attributes,
			  start_function start, void *argument)
{
	const uintptr_t site = (uintptr_t)__builtin_return_address(0);
	const struct heddle_host_call call = {start, argument, site, start, argument};

	if (host_starts((uintptr_t)start))
		return REAL(pthread_create)(handle, attributes, start, argument);
	return create_from(handle, attributes, &call);
}

/* Both libcs give an int through the pointer that pthread_join() takes. */
EXPORT int thrd_create(thrd_t *handle, thrd_start_t start, void *argument)
{
	const uintptr_t site = (uintptr_t)__builtin_return_address(0);
	const start_function run = (start_function)(void *)start;
	const struct heddle_host_call call = {run, argument, site, run, argument};
	int error = errno, result;

	if (!process_ready())
		return REAL(thrd_create)(handle, start, argument);
	result = create_known((pthread_t *)handle, NULL, &call);
	errno = error;
	return result == 0 ? thrd_success : result == ENOMEM ? thrd_nomem : thrd_error;
}
