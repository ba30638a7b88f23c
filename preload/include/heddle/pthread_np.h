/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What a kernel thread is for, said by the program itself: TEK's thread attributes on pthreads.
 *
 *     #include <heddle/pthread_np.h>
 *
 *     struct heddle_attributes gas = {
 *         .size_bytes = sizeof(gas),
 *         .thread_class = HEDDLE_TIME_CRITICAL,
 *         .priority = 20,
 *         .group = HEDDLE_GROUP_URGENT,
 *         .role = "gas detection",
 *     };
 *     pthread_setattributes_np(pthread_self(), &gas);
 *
 * or, for class and priority alone, pthread_setschedparam(thread, SCHED_HEDDLE, &param), or the
 * same through pthread_attr_setschedpolicy().
 *
 * Nothing has to be linked. Under `heddle run` the thread's record is written, which `heddle ps`
 * shows and the CPU Mediator acts upon. Without it these are hints that nobody takes:
 * pthread_setattributes_np() checks and remembers the calling thread's and returns 0, as for
 * another thread; only SCHED_HEDDLE itself is then refused by libc, with EINVAL.
 *
 * The names and values are those of <heddle.h>; with <heddle/pthread.h> its functions are meant,
 * and this header adds nothing. <heddle/record.h> is to be included before these.
 */
#ifndef HEDDLE_PTHREAD_NP_H
#define HEDDLE_PTHREAD_NP_H

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SCHED_HEDDLE
/* Scheduling policy: a sched_priority of 1..99 makes the thread time-critical, 0 lazy. */
#define SCHED_HEDDLE 0x48
#endif

#ifndef HEDDLE_TYPES_H
#define HEDDLE_ROLE_BYTES_MAX 64 /* with the final NUL */
#define HEDDLE_LAZY 0
#define HEDDLE_TIME_CRITICAL 1
#ifndef HEDDLE_RECORD_H
#define HEDDLE_GROUP_URGENT 0
#define HEDDLE_GROUP_NORMAL 1
#define HEDDLE_GROUP_SERVICE 2
#define HEDDLE_GROUP_BACKGROUND 3
#define HEDDLE_CATEGORY_NONE 0
#define HEDDLE_CATEGORY_EVENT 1
#define HEDDLE_CATEGORY_DRAWING 2
#define HEDDLE_CATEGORY_FOREGROUND 3
#define HEDDLE_CATEGORY_BACKGROUND 4
#endif
#endif

#ifndef HEDDLE_ATTRIBUTES_DEFINED
#define HEDDLE_ATTRIBUTES_DEFINED
/* size_bytes is sizeof(struct heddle_attributes), before reading too. An empty role leaves the
 * one that the thread has. */
struct heddle_attributes {
	size_t size_bytes;
	int thread_class; /* HEDDLE_LAZY, HEDDLE_TIME_CRITICAL */
	int priority;     /* 1..99 when time-critical, else 0 */
	int group;        /* HEDDLE_GROUP_... */
	int category;     /* HEDDLE_CATEGORY_... */
	char role[HEDDLE_ROLE_BYTES_MAX];
};
#endif

/* libheddle-preload's, where it is loaded. */
extern int heddle_preload_setattributes(pthread_t thread, const struct heddle_attributes *value)
	__attribute__((weak));
extern int heddle_preload_getattributes(pthread_t thread, struct heddle_attributes *value)
	__attribute__((weak));

/* What a name rule of the policy says, for threads that are no kernel threads: 0 and `value`
 * (whose size_bytes is set before), or -1 where none holds. */
extern int heddle_preload_rule_of_name(const char *name, struct heddle_attributes *value)
	__attribute__((weak));

#if !defined(pthread_setattributes_np) && !defined(HEDDLE_PRELOAD_H)

/* Where nobody listens: what the calling thread said of itself. One for the whole program. */
__attribute__((weak)) __thread struct heddle_attributes heddle_attributes_said_;

static inline int heddle_attributes_check_(const struct heddle_attributes *value)
{
	const int critical = value->thread_class == HEDDLE_TIME_CRITICAL;

	if (value->size_bytes != sizeof(*value) ||
	    (value->thread_class != HEDDLE_LAZY && !critical))
		return EINVAL;
	if (critical ? value->priority < 1 || value->priority > 99 : value->priority != 0)
		return EINVAL;
	if (value->group < HEDDLE_GROUP_URGENT || value->group > HEDDLE_GROUP_BACKGROUND ||
	    value->category < HEDDLE_CATEGORY_NONE || value->category > HEDDLE_CATEGORY_BACKGROUND)
		return EINVAL;
	return memchr(value->role, 0, sizeof(value->role)) ? 0 : EINVAL;
}

/* Says what `thread` is for. EINVAL; ESRCH where its threads are tabled and it is none. */
static inline int pthread_setattributes_np(pthread_t thread, const struct heddle_attributes *value)
{
	int error;

	if (heddle_preload_setattributes)
		return heddle_preload_setattributes(thread, value);
	error = heddle_attributes_check_(value);
	if (error == 0 && pthread_equal(thread, pthread_self())) {
		const struct heddle_attributes before = heddle_attributes_said_;

		heddle_attributes_said_ = *value;
		if (!value->role[0])
			memcpy(heddle_attributes_said_.role, before.role, sizeof(before.role));
	}
	return error;
}

/* What `thread` is for, as it was said or as a policy has it. EINVAL; ESRCH. */
static inline int pthread_getattributes_np(pthread_t thread, struct heddle_attributes *value)
{
	if (heddle_preload_getattributes)
		return heddle_preload_getattributes(thread, value);
	if (value->size_bytes != sizeof(*value))
		return EINVAL;
	if (pthread_equal(thread, pthread_self()) && heddle_attributes_said_.size_bytes) {
		*value = heddle_attributes_said_;
		return 0;
	}
	memset(value, 0, sizeof(*value));
	value->size_bytes = sizeof(*value);
	value->group = HEDDLE_GROUP_NORMAL;
	return 0;
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_PTHREAD_NP_H */
