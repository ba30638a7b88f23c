/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The thread record: what every layer of heddle knows about a thread.
 *
 * This header is the truth. record/src mirrors it, and a test compiles both and compares every
 * offset. It is plain C11, C++11 and BPF C: nothing but <linux/types.h> is included, and nothing
 * at all where vmlinux.h already came.
 *
 * A process's table is one file: a header page, the role index, the texts, the records.
 *
 *     0              HEDDLE_ROLES_OFFSET       header.text_offset      header.records_offset
 *     | header page  | role index: u32 per role | texts: u32 len, bytes | records, 64 bytes each
 *
 * A writer that sees kernel threads come and go (libheddle-preload) adds two areas:
 *
 *     header.places_offset          header.uses_offset
 *     | places: one per record      | uses: one per kind of thread, ended threads included
 *
 * All numbers are little-endian. The file is sparse: only what was used takes memory.
 *
 * Protocol (a seqlock per record):
 *   1. One writer at a time rewrites a record: it makes `sequence` odd, writes the fields, and
 *      makes it even again (heddle_record_begin, heddle_record_end).
 *   2. A single field may be stored without touching `sequence` by whoever owns the thread at
 *      that moment: each field is valid by itself.
 *   3. A reader takes a copy only if `sequence` was even and the same before and after.
 *   4. `generation` grows each time the slot is given to a new thread: slot and generation
 *      together are the thread's id, which is never used twice (until 2^32 reuses of one slot).
 *   5. A reader trusts nothing: every id, offset, length and enumerator is checked.
 */
#ifndef HEDDLE_RECORD_H
#define HEDDLE_RECORD_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_RECORD_SIZE 64

/* The bytes "HEDDLE01" as a little-endian number; the digits are the format's version. */
#define HEDDLE_TABLE_MAGIC 0x3130454c44444548ULL
#define HEDDLE_TABLE_HEADER_SIZE 4096
#define HEDDLE_ROLES_OFFSET 4096

/* Limits that readers enforce. */
#define HEDDLE_RECORDS_MAX (1u << 26)
#define HEDDLE_ROLES_MAX 65536u
#define HEDDLE_TEXT_BYTES_MAX 1024u
#define HEDDLE_TEXT_AREA_MAX (64u << 20)
/* A text's id is its offset in the text area divided by this; id 0 is "no text". */
#define HEDDLE_TEXT_ALIGN 8u

#define HEDDLE_USES_MAX 65536u
#define HEDDLE_PLACE_SIZE 32
#define HEDDLE_USE_SIZE 128

/* heddle_record.worker: the thread is on no worker. */
#define HEDDLE_WORKER_NONE 0xffffu

enum heddle_state {
	HEDDLE_STATE_FREE = 0,
	HEDDLE_STATE_NEW = 1,
	HEDDLE_STATE_READY = 2,
	/* Derived by readers from the workers' `start`; a runtime writes READY for both. */
	HEDDLE_STATE_RUNNING = 3,
	HEDDLE_STATE_PARKED = 4,
	HEDDLE_STATE_EV_WAIT = 5,
	HEDDLE_STATE_FINISHED = 6
};

enum heddle_kind {
	HEDDLE_KIND_FREE = 0,
	HEDDLE_KIND_LIGHT = 1,
	HEDDLE_KIND_FULL = 2,
	HEDDLE_KIND_KERNEL_THREAD = 3,
	HEDDLE_KIND_WORKER = 4
};

enum heddle_class { HEDDLE_CLASS_LAZY = 0, HEDDLE_CLASS_TIME_CRITICAL = 1 };

enum heddle_group {
	HEDDLE_GROUP_URGENT = 0,
	HEDDLE_GROUP_NORMAL = 1,
	HEDDLE_GROUP_SERVICE = 2,
	HEDDLE_GROUP_BACKGROUND = 3
};

enum heddle_category {
	HEDDLE_CATEGORY_NONE = 0,
	HEDDLE_CATEGORY_EVENT = 1,
	HEDDLE_CATEGORY_DRAWING = 2,
	HEDDLE_CATEGORY_FOREGROUND = 3,
	HEDDLE_CATEGORY_BACKGROUND = 4
};

enum heddle_zone {
	HEDDLE_ZONE_UNKNOWN = 0,
	HEDDLE_ZONE_LOW = 1,
	HEDDLE_ZONE_NORMAL = 2,
	HEDDLE_ZONE_HIGH = 3
};

/* What a thread is, in one cache line. Enumerators are stored as bytes. */
struct heddle_record {
	__u32 sequence;       /* odd while being written */
	__u32 generation;     /* of the slot */
	__s32 tid;            /* kernel thread it runs on, 0 unknown */
	__u16 worker;         /* HEDDLE_WORKER_NONE: none */
	__u8 state;           /* enum heddle_state */
	__u8 kind;            /* enum heddle_kind */
	__u8 thread_class;    /* enum heddle_class */
	__u8 priority;        /* 1..99 in the time-critical class, else 0 */
	__u8 group;           /* enum heddle_group */
	__u8 category;        /* enum heddle_category */
	__u8 policy;          /* kernel scheduling policy, SCHED_* */
	__u8 zone;            /* enum heddle_zone */
	__u16 role;           /* index into the role index, 0 none */
	__u32 start;          /* text id; in a worker's record: slot + 1 of the thread it runs */
	__u32 stack_size;     /* bytes */
	__u32 stack_peak;     /* bytes */
	__u32 stack_resident; /* bytes */
	__u64 created_ns;     /* CLOCK_MONOTONIC */
	__u64 cpu_ns;
	__u32 switches;
	__u32 name; /* text id */
} __attribute__((aligned(64)));

/* heddle_place.flags */
#define HEDDLE_PLACE_MAIN 1u       /* the process's first thread */
#define HEDDLE_PLACE_USER_STACK 2u /* the program gave the stack's memory */
#define HEDDLE_PLACE_TUNED 4u      /* the Stack Tuner chose the size */

/* Where a thread's stack lies, for whoever measures it from outside. Addresses of the process. */
struct heddle_place {
	__u64 stack_low;  /* lowest usable byte, above the guard; 0 unknown */
	__u64 stack_high; /* end of the mapping */
	__u64 entry;      /* stack pointer at the start function's call: peaks count from here */
	__u32 use;        /* index into the uses + 1, 0 none */
	__u32 flags;
} __attribute__((aligned(32)));

/* heddle_use.flags */
#define HEDDLE_USE_MAIN 1u       /* the process's first thread */
#define HEDDLE_USE_EXPLICIT 2u   /* asked for another size than the default */
#define HEDDLE_USE_USER_STACK 4u /* the program gave the stacks' memory */
#define HEDDLE_USE_TUNED 8u      /* the Stack Tuner chose the size */
#define HEDDLE_USE_OVERFLOWED 16u /* a thread of this kind ran into its guard */
#define HEDDLE_USE_TRIPPED 32u   /* a thread of this kind crossed the border of the High zone */

/* What the threads of one kind did: one kind is one start function and one refining word. The
 * text `start` is one line, or two if there is a refining word; each, like the text `site`, is
 *
 *     BUILD-ID+OFFSET PATH
 *
 * in hexadecimal, BUILD-ID "-" where the module has none. Counters saturate; sizes are bytes. */
struct heddle_use {
	__u32 sequence; /* a seqlock, as in the record */
	__u32 flags;
	__u32 start;          /* text id */
	__u32 site;           /* text id: where the first one was created */
	__u32 name;           /* text id: the last name that one was given */
	__u16 role;           /* index into the role index, 0 none */
	__u8 thread_class;    /* enum heddle_class */
	__u8 priority;
	__u8 group;           /* enum heddle_group */
	__u8 category;        /* enum heddle_category */
	__u16 unused;
	__u32 created;        /* threads so far */
	__u32 failed;         /* threads that could not be created */
	__u32 ended;          /* of those created */
	__u32 stack_asked;    /* the last one's, the default where none was asked for */
	__u32 stack_given;    /* the last one's */
	__u32 peak;           /* highest of all ended or measured threads */
	__u32 resident;       /* highest */
	__u64 cpu_ns;         /* of ended threads together */
	__u64 reserved;       /* bytes that living threads have reserved for stacks */
	__u64 reserved_peak;  /* most at one time */
	__u8 padding[48];
} __attribute__((aligned(128)));

/* heddle_table.flags */
#define HEDDLE_TABLE_TEXTS_FULL 1u /* some texts could not be kept and read as none */
#define HEDDLE_TABLE_PARTIAL 2u    /* memory ran out: the newest slots have no public record */
#define HEDDLE_TABLE_NATIVE 4u     /* the threads are kernel threads (native backend) */
#define HEDDLE_TABLE_PRELOAD 8u    /* written by libheddle-preload */
#define HEDDLE_TABLE_ENDED 16u     /* the process has ended in order: all peaks were measured */

/* The first bytes of the table; the rest of its page is zero. */
struct heddle_table {
	__u64 magic;
	__u32 header_size;
	__u32 record_size;
	__u32 capacity;   /* records */
	__u32 high_water; /* slots [0, high_water) were used; grows only */
	__u64 records_offset;
	__u64 text_offset;
	__u32 text_size; /* bytes */
	__u32 text_used; /* bytes; grows only */
	__u64 roles_offset;
	__u32 roles_capacity;
	__u32 roles_used; /* roles [1, roles_used) exist; grows only */
	__s32 pid;
	__u32 flags;
	__u64 process_start; /* field 22 of /proc/PID/stat, 0 unknown */
	__u64 created_ns;    /* CLOCK_MONOTONIC */
	__u64 places_offset; /* 0: none */
	__u64 uses_offset;   /* 0: none */
	__u32 uses_capacity;
	__u32 uses_used; /* uses [0, uses_used) exist; grows only */
	__u64 run;       /* the `heddle run` that started it, 0 none */
	__u32 user_peak; /* most threads at one time that uses count and no record shows */
	__u32 pid_namespace; /* inode of /proc/PID/ns/pid, 0 unknown */
};

#if !defined(__bpf__) && (defined(__GNUC__) || defined(__clang__))
/* Opens a record for rewriting and returns the value for heddle_record_end. */
static inline __u32 heddle_record_begin(struct heddle_record *record)
{
	__u32 odd = __atomic_load_n(&record->sequence, __ATOMIC_RELAXED) | 1u;

	__atomic_store_n(&record->sequence, odd, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return odd;
}

/* Closes what heddle_record_begin opened. */
static inline void heddle_record_end(struct heddle_record *record, __u32 odd)
{
	__atomic_store_n(&record->sequence, odd + 1u, __ATOMIC_RELEASE);
}
#endif

#ifdef __cplusplus
}
static_assert(sizeof(struct heddle_record) == HEDDLE_RECORD_SIZE, "one cache line");
static_assert(sizeof(struct heddle_place) == HEDDLE_PLACE_SIZE, "half a cache line");
static_assert(sizeof(struct heddle_use) == HEDDLE_USE_SIZE, "two cache lines");
#else
_Static_assert(sizeof(struct heddle_record) == HEDDLE_RECORD_SIZE, "one cache line");
_Static_assert(sizeof(struct heddle_place) == HEDDLE_PLACE_SIZE, "half a cache line");
_Static_assert(sizeof(struct heddle_use) == HEDDLE_USE_SIZE, "two cache lines");
#endif

#endif
