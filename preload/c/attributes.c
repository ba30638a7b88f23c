/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What a thread is for and how urgent it is: from the plan's rules, from its name, from the
 * program's own word.
 *
 * Strongest first: what the program said through <heddle/pthread_np.h> or SCHED_HEDDLE, a rule
 * for the thread's name, a rule for its start function.
 *
 * Where `heddle run` mediates, it reads the record and sets the kernel's policies. Where it does
 * not, a time-critical thread gets SCHED_RR here, if this process may have it, and loses it again
 * when it turns lazy; if it may not, the record is all there is.
 *
 * Invariant: `lock` of the thread is held while its record's attributes are rewritten.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <heddle/pthread_np.h>

#include <errno.h>
#include <fnmatch.h>
#include <linux/sched.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void attributes_of_kind(struct heddle_record *record, const struct kind *kind)
{
	record->role = kind->role;
	record->thread_class = kind->thread_class;
	record->priority = kind->priority;
	record->group = kind->group;
	record->category = kind->category;
}

/* ---- the kernel's policy, without a mediator */

/* musl's own sched_setscheduler() refuses. */
static bool set_policy(int32_t tid, int policy, const struct sched_param *param)
{
	return syscall(SYS_sched_setscheduler, tid, policy | SCHED_RESET_ON_FORK, param) == 0;
}

void attributes_apply(struct thread *thread)
{
	struct heddle_record *record = record_of(thread);
	const int32_t tid = load(&record->tid);
	struct sched_param param = {0};
	int error = errno;

	if (!tid || plan_flag(HEDDLE_PLAN_MEDIATED) || !calls_allowed())
		return;
	if (record->thread_class == HEDDLE_CLASS_TIME_CRITICAL) {
		param.sched_priority = record->priority;
		/* One that the program itself made real-time is as it wants it. */
		if (!(thread->attributes & ATTRIBUTES_RAISED) && record->policy != SCHED_OTHER)
			return;
		if (set_policy(tid, SCHED_RR, &param)) {
			thread->attributes |= ATTRIBUTES_RAISED;
			store(&record->policy, SCHED_RR);
		}
	} else if (thread->attributes & ATTRIBUTES_RAISED) {
		/* The flag may only be cleared by the privileged: a fork resets nothing then. */
		if (set_policy(tid, SCHED_OTHER, &param)) {
			thread->attributes &= ~ATTRIBUTES_RAISED;
			store(&record->policy, SCHED_OTHER);
		}
	}
	errno = error;
}

struct wish {
	uint8_t thread_class;
	uint8_t priority;
	uint8_t group;
	uint8_t category;
	const char *role; /* null or empty: stays */
};

/* The caller holds the thread's lock. */
static void set_locked(struct thread *thread, const struct wish *wish, uint32_t source)
{
	struct heddle_record *record = record_of(thread);
	const size_t length = wish->role ? strlen(wish->role) : 0;
	const uint16_t role = length ? role_intern(wish->role, length) : 0;
	uint32_t odd;

	if (source < (thread->attributes & ATTRIBUTES_SOURCE))
		return;
	thread->attributes = (thread->attributes & ~ATTRIBUTES_SOURCE) | source;
	odd = heddle_record_begin(record);
	store(&record->thread_class, wish->thread_class);
	store(&record->priority, wish->priority);
	store(&record->group, wish->group);
	store(&record->category, wish->category);
	if (role)
		store(&record->role, role);
	heddle_record_end(record, odd);
	if (thread->use)
		use_attributes(thread->use, record);
	attributes_apply(thread);
}

static void set(struct thread *thread, const struct wish *wish, uint32_t source)
{
	lock_take(&thread->lock);
	set_locked(thread, wish, source);
	lock_give(&thread->lock);
}

/* ---- by name */

const struct heddle_name_rule *rule_of_name(const char *name)
{
	const struct heddle_plan *it = load_acquire(&plan);

	for (uint32_t i = 0; it && i < it->names; i++) {
		const struct heddle_name_rule *rule = &plan_names()[i];

		if ((rule->flags & HEDDLE_RULE_ATTRIBUTES) &&
		    fnmatch(plan_text(rule->pattern), name, 0) == 0)
			return rule;
	}
	return NULL;
}

static void apply_name_rules(struct thread *thread, const char *name)
{
	const struct heddle_name_rule *rule = rule_of_name(name);

	if (!rule)
		return;
	const struct wish wish = {rule->thread_class, rule->priority, rule->group, rule->category,
				  plan_text(rule->role)};

	set(thread, &wish, ATTRIBUTES_BY_NAME);
}

/* For threads that are none of ours: heddle's own runtime asks for its user-level ones, so that
 * one policy serves both. 0 if a rule holds, -1 if none does. */
EXPORT int heddle_preload_rule_of_name(const char *name, struct heddle_attributes *value)
{
	const struct heddle_name_rule *rule;

	library_begin();
	rule = value->size_bytes == sizeof(*value) ? rule_of_name(name) : NULL;
	if (!rule)
		return -1;
	memset(value, 0, sizeof(*value));
	value->size_bytes = sizeof(*value);
	value->thread_class = rule->thread_class;
	value->priority = rule->priority;
	value->group = rule->group;
	value->category = rule->category;
	text_copy(value->role, sizeof(value->role) - 1, plan_text(rule->role));
	return 0;
}

/* Where one function starts all threads, the name is the kind. */
static void move_to_kind_of_name(struct thread *thread, const char *name)
{
	const uint32_t index = kind_of_name(thread->kind, name);
	const struct use_birth birth = {thread->stack_asked, thread->stack_given,
					thread->use_flags};
	uint32_t use;

	if (!index || index == thread->kind)
		return;
	use = kind_at(index)->use;
	use_moved(thread->use, use, &birth);
	thread->kind = index;
	thread->use = use;
	store(&table.places[thread->slot].use, use);
}

void attributes_of_name(struct thread *thread, const char *name)
{
	const size_t length = strnlen(name, 64);
	const uint32_t text = text_intern(name, length, TEXT_NAME);
	int error = errno;

	store(&record_of(thread)->name, text);
	if (thread->use && thread->kind) {
		if (length && (kind_at(thread->kind)->flags & KIND_BY_NAME))
			move_to_kind_of_name(thread, name);
		use_named(thread->use, text);
	}
	apply_name_rules(thread, name);
	errno = error;
}

EXPORT int pthread_setname_np(pthread_t handle, const char *name)
{
	const int result = REAL(pthread_setname_np)(handle, name);
	struct thread *thread = result == 0 ? thread_find(handle) : NULL;

	if (thread)
		attributes_of_name(thread, name);
	return result;
}

/* ---- by the program's own word */

/* The thread, where its process has no table yet: one word about it is reason enough. */
static struct thread *find(pthread_t handle)
{
	return process_ready() ? thread_find(handle) : NULL;
}

static bool is_right(const struct heddle_attributes *value)
{
	const bool critical = value->thread_class == HEDDLE_TIME_CRITICAL;

	if (value->size_bytes != sizeof(*value) ||
	    (value->thread_class != HEDDLE_LAZY && !critical))
		return false;
	if (critical ? value->priority < 1 || value->priority > 99 : value->priority != 0)
		return false;
	return value->group >= HEDDLE_GROUP_URGENT && value->group <= HEDDLE_GROUP_BACKGROUND &&
	       value->category >= HEDDLE_CATEGORY_NONE &&
	       value->category <= HEDDLE_CATEGORY_BACKGROUND &&
	       memchr(value->role, 0, sizeof(value->role));
}

EXPORT int heddle_preload_setattributes(pthread_t handle, const struct heddle_attributes *value)
{
	struct thread *thread;

	if (!is_right(value))
		return EINVAL;
	/* Without a table a hint is taken by nobody, which is no error. */
	if (!process_ready())
		return 0;
	thread = thread_find(handle);
	if (!thread)
		return ESRCH;
	const struct wish wish = {(uint8_t)value->thread_class, (uint8_t)value->priority,
				  (uint8_t)value->group, (uint8_t)value->category, value->role};

	set(thread, &wish, ATTRIBUTES_BY_PROGRAM);
	return 0;
}

static void copy_role(char *out, uint16_t role)
{
	uint32_t length, text = role ? load(&table.roles[role]) : 0;
	const char *at = table.texts + (size_t)text * HEDDLE_TEXT_ALIGN;

	if (!text)
		return;
	memcpy(&length, at, sizeof(length));
	memcpy(out, at + sizeof(length), min_u64(length, HEDDLE_ROLE_BYTES_MAX - 1));
}

EXPORT int heddle_preload_getattributes(pthread_t handle, struct heddle_attributes *value)
{
	const struct thread *thread;
	const struct heddle_record *record;

	if (value->size_bytes != sizeof(*value))
		return EINVAL;
	thread = find(handle);
	if (!thread)
		return ESRCH;
	record = record_of(thread);
	memset(value, 0, sizeof(*value));
	value->size_bytes = sizeof(*value);
	value->thread_class = load(&record->thread_class);
	value->priority = load(&record->priority);
	value->group = load(&record->group);
	value->category = load(&record->category);
	copy_role(value->role, load(&record->role));
	return 0;
}

/* For programs that ask by name, without the header. */
EXPORT int pthread_setattributes_np(pthread_t, const struct heddle_attributes *)
	__attribute__((alias("heddle_preload_setattributes")));
EXPORT int pthread_getattributes_np(pthread_t, struct heddle_attributes *)
	__attribute__((alias("heddle_preload_getattributes")));

/* ---- SCHED_HEDDLE */

/* The class that a priority of SCHED_HEDDLE means; the rest stays. The caller holds the lock. */
static void set_class(struct thread *thread, int priority)
{
	const struct heddle_record *record = record_of(thread);
	const struct wish wish = {
		priority > 0 ? HEDDLE_CLASS_TIME_CRITICAL : HEDDLE_CLASS_LAZY, (uint8_t)priority,
		load(&record->group), load(&record->category), NULL};

	set_locked(thread, &wish, ATTRIBUTES_BY_PROGRAM);
}

int attributes_set_priority(struct thread *thread, int priority)
{
	if (priority < 0 || priority > 99)
		return EINVAL;
	lock_take(&thread->lock);
	set_class(thread, priority);
	thread->attributes |= ATTRIBUTES_POLICY;
	lock_give(&thread->lock);
	return 0;
}

/* The program gave the thread a policy of the kernel's: with SCHED_HEDDLE its class ends, too. */
static void leave_heddle(struct thread *thread, int policy, uint32_t answered)
{
	uint32_t before;

	lock_take(&thread->lock);
	before = thread->attributes;
	store(&record_of(thread)->policy, (uint8_t)(policy & ~SCHED_RESET_ON_FORK));
	thread->attributes &= ~(ATTRIBUTES_POLICY | ATTRIBUTES_RAISED | ATTRIBUTES_ANSWERED);
	thread->attributes |= answered;
	if (before & ATTRIBUTES_POLICY)
		set_class(thread, 0);
	lock_give(&thread->lock);
}

/* What the kernel has, with SCHED_RESET_ON_FORK; negative where it may not be asked. By number:
 * musl's function refuses. */
static long policy_in_kernel(const struct thread *thread)
{
	const int32_t tid = load(&record_of(thread)->tid);

	return tid && calls_allowed() ? syscall(SYS_sched_getscheduler, tid) : -1;
}

/* Whether the thread has what the Mediator gave it, and its program never asked for. */
static bool is_lowered(const struct thread *thread)
{
	return plan_flag(HEDDLE_PLAN_MEDIATED) &&
	       load(&record_of(thread)->policy) != SCHED_IDLE &&
	       (policy_in_kernel(thread) & ~SCHED_RESET_ON_FORK) == SCHED_IDLE;
}

/* The kernel refused a policy that the program would have got without heddle. */
static int answer_refusal(struct thread *thread, int policy, const struct sched_param *param)
{
	const long now = policy_in_kernel(thread);

	/* An ordinary user may not take back the flag that comes with SCHED_RR from us. */
	if (now > 0 && (now & SCHED_RESET_ON_FORK) &&
	    set_policy(load(&record_of(thread)->tid), policy, param)) {
		leave_heddle(thread, policy, 0);
		return 0;
	}
	/* Nor leave SCHED_IDLE: the thread stays as the Mediator has it until it ends. */
	if ((policy != SCHED_OTHER && policy != SCHED_BATCH) || param->sched_priority != 0 ||
	    !is_lowered(thread))
		return EPERM;
	leave_heddle(thread, policy, ATTRIBUTES_ANSWERED);
	return 0;
}

EXPORT int pthread_setschedparam(pthread_t handle, int policy, const struct sched_param *param)
{
	struct thread *thread;
	int error = errno, result;

	if (policy == SCHED_HEDDLE) {
		thread = find(handle);
		return thread ? attributes_set_priority(thread, param->sched_priority) : ESRCH;
	}
	result = REAL(pthread_setschedparam)(handle, policy, param);
	thread = result == 0 || result == EPERM ? thread_find(handle) : NULL;
	if (thread && result == 0)
		leave_heddle(thread, policy, 0);
	else if (thread)
		result = answer_refusal(thread, policy, param);
	errno = error;
	return result;
}

EXPORT int pthread_getschedparam(pthread_t handle, int *policy, struct sched_param *param)
{
	const struct thread *thread = thread_find(handle);
	const uint32_t source = thread ? thread->attributes : 0;

	if (source & ATTRIBUTES_POLICY) {
		*policy = SCHED_HEDDLE;
		param->sched_priority = load(&record_of(thread)->priority);
		return 0;
	}
	if ((source & ATTRIBUTES_ANSWERED) && is_lowered(thread)) {
		*policy = load(&record_of(thread)->policy);
		param->sched_priority = 0;
		return 0;
	}
	return REAL(pthread_getschedparam)(handle, policy, param);
}

EXPORT int pthread_setschedprio(pthread_t handle, int priority)
{
	struct thread *thread = thread_find(handle);

	if (thread && (thread->attributes & ATTRIBUTES_POLICY))
		return attributes_set_priority(thread, priority);
	return REAL(pthread_setschedprio)(handle, priority);
}
