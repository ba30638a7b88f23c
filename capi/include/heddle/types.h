/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * heddle/types.h - the types, limits and constants of heddle.h, which includes this file.
 *
 * Members whose names begin with heddle_private_ belong to the library. No object is larger than
 * its pthread_ namesake in the GNU C library on the same machine, and all zero bytes are a valid
 * normal mutex, condition variable, read-write lock and once.
 */
#ifndef HEDDLE_TYPES_H
#define HEDDLE_TYPES_H

#include <stddef.h>

/* ---------------------------------------------------------------------------------------------
 * Types
 * ------------------------------------------------------------------------------------------- */

/* A thread: slot and generation of its record. A stale id fails with ESRCH; it never names
 * another thread. 0 is no thread. */
typedef unsigned long heddle_t;

typedef unsigned int heddle_key_t;
typedef int heddle_once_t;
typedef volatile int heddle_spinlock_t;

typedef struct heddle_attr {
	size_t heddle_private_stack_size;
	size_t heddle_private_guard_size;
	int heddle_private_policy;
	int heddle_private_priority;
	unsigned char heddle_private_flags;
	unsigned char heddle_private_unused[2];
	unsigned char heddle_private_group;
	unsigned char heddle_private_category;
	unsigned char heddle_private_reserved[3];
	const char *heddle_private_role;
	unsigned long heddle_private_magic;
	size_t heddle_private_base;
} heddle_attr_t;

typedef struct heddle_mutexattr {
	unsigned int heddle_private_kind;
} heddle_mutexattr_t;

typedef struct heddle_mutex {
	unsigned int heddle_private_word;
	unsigned char heddle_private_unlocks;
	unsigned char heddle_private_kind;
	unsigned short heddle_private_count;
	unsigned long heddle_private_queue[3];
	void *heddle_private_next;
} heddle_mutex_t;

typedef struct heddle_condattr {
	unsigned int heddle_private_clock;
} heddle_condattr_t;

typedef struct heddle_cond {
	unsigned int heddle_private_clock;
	unsigned int heddle_private_unused;
	unsigned long heddle_private_queue[3];
	size_t heddle_private_reserved;
} heddle_cond_t;

typedef struct heddle_rwlockattr {
	unsigned int heddle_private_kind;
} heddle_rwlockattr_t;

typedef struct heddle_rwlock {
	unsigned int heddle_private_state;
	unsigned int heddle_private_writer;
	unsigned long heddle_private_readers[3];
	unsigned long heddle_private_writers[3];
} heddle_rwlock_t;

typedef struct heddle_barrierattr {
	unsigned int heddle_private_kind;
} heddle_barrierattr_t;

typedef struct heddle_barrier {
	unsigned int heddle_private_threshold;
	unsigned int heddle_private_arrived;
	unsigned long heddle_private_queue[3];
} heddle_barrier_t;

typedef struct heddle_sem {
	unsigned int heddle_private_word;
	unsigned int heddle_private_unused;
	unsigned long heddle_private_queue[3];
} heddle_sem_t;

/* ---------------------------------------------------------------------------------------------
 * Constants
 * ------------------------------------------------------------------------------------------- */

#define HEDDLE_CREATE_JOINABLE 0
#define HEDDLE_CREATE_DETACHED 1
#define HEDDLE_INHERIT_SCHED 0
#define HEDDLE_EXPLICIT_SCHED 1
#define HEDDLE_SCOPE_SYSTEM 0
#define HEDDLE_SCOPE_PROCESS 1
#define HEDDLE_PROCESS_PRIVATE 0
#define HEDDLE_PROCESS_SHARED 1

#define HEDDLE_MUTEX_NORMAL 0
#define HEDDLE_MUTEX_RECURSIVE 1
#define HEDDLE_MUTEX_ERRORCHECK 2
#define HEDDLE_MUTEX_DEFAULT HEDDLE_MUTEX_NORMAL
#define HEDDLE_MUTEX_STALLED 0
#define HEDDLE_MUTEX_ROBUST 1
#define HEDDLE_PRIO_NONE 0
#define HEDDLE_PRIO_INHERIT 1
#define HEDDLE_PRIO_PROTECT 2

#define HEDDLE_CANCEL_ENABLE 0
#define HEDDLE_CANCEL_DISABLE 1
#define HEDDLE_CANCEL_DEFERRED 0
#define HEDDLE_CANCEL_ASYNCHRONOUS 1
#define HEDDLE_CANCELED ((void *)-1)

#define HEDDLE_BARRIER_SERIAL_THREAD (-1)

/* Limits. A destructor that keeps setting values is called this many times in all. */
#define HEDDLE_KEYS_MAX 1024
#define HEDDLE_DESTRUCTOR_ITERATIONS 4
#define HEDDLE_STACK_MIN 16384
#define HEDDLE_SEM_VALUE_MAX 2147483647
#define HEDDLE_NAME_BYTES_MAX 16 /* with the final NUL, as the kernel has it */
#define HEDDLE_ROLE_BYTES_MAX 64 /* with the final NUL */

#define HEDDLE_ONCE_INIT 0
#define HEDDLE_MUTEX_INITIALIZER { 0, 0, HEDDLE_MUTEX_NORMAL, 0, { 0, 0, 0 }, 0 }
#define HEDDLE_RECURSIVE_MUTEX_INITIALIZER { 0, 0, HEDDLE_MUTEX_RECURSIVE, 0, { 0, 0, 0 }, 0 }
#define HEDDLE_ERRORCHECK_MUTEX_INITIALIZER { 0, 0, HEDDLE_MUTEX_ERRORCHECK, 0, { 0, 0, 0 }, 0 }
#define HEDDLE_COND_INITIALIZER { 0, 0, { 0, 0, 0 }, 0 }
#define HEDDLE_RWLOCK_INITIALIZER { 0, 0, { 0, 0, 0 }, { 0, 0, 0 } }

/* Scheduling policy of heddle's own classes, for the functions that take a policy: a
 * sched_priority of 1..99 makes the thread time-critical, 0 makes it lazy. */
#define SCHED_HEDDLE 0x48

/* TEK's class, group and category of a thread; the values are those of its record. */
#define HEDDLE_LAZY 0
#define HEDDLE_TIME_CRITICAL 1
#define HEDDLE_GROUP_URGENT 0
#define HEDDLE_GROUP_NORMAL 1
#define HEDDLE_GROUP_SERVICE 2
#define HEDDLE_GROUP_BACKGROUND 3
#define HEDDLE_CATEGORY_NONE 0
#define HEDDLE_CATEGORY_EVENT 1
#define HEDDLE_CATEGORY_DRAWING 2
#define HEDDLE_CATEGORY_FOREGROUND 3
#define HEDDLE_CATEGORY_BACKGROUND 4

#endif /* HEDDLE_TYPES_H */
