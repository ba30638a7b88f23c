/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The plan: what `heddle run` tells libheddle-preload before the program starts.
 *
 * One file, read once by each process of the run, found by the environment variable HEDDLE_PLAN.
 * The command resolves everything that takes symbols, profiles or parsing beforehand, so that the
 * library only compares numbers. preload/src/plan.rs writes it, and a test compares every offset.
 *
 *     0            plan.rules_offset              plan.names_offset             plan.texts_offset
 *     | header     | rules: by what starts them   | names: by pattern of name   | texts, NUL-ended
 *
 * All numbers are little-endian and of fixed size: 32-bit and 64-bit programs read the same file.
 * The library checks every offset, and without a right plan it only observes.
 */
#ifndef HEDDLE_PLAN_H
#define HEDDLE_PLAN_H

#include <linux/types.h>

/* The bytes "HEDPLAN2" as a little-endian number; the digit is the format's version. */
#define HEDDLE_PLAN_MAGIC 0x324e414c50444548ULL
#define HEDDLE_PLAN_BYTES_MAX (16u << 20)
#define HEDDLE_BUILD_ID_MAX 32

enum heddle_stacks {
	HEDDLE_STACKS_OBSERVE = 0,
	HEDDLE_STACKS_AUTO = 1, /* threads of default size get the size of their rule */
	HEDDLE_STACKS_FORCE = 2 /* all get it, but for those on the program's own memory */
};

/* heddle_plan.flags */
#define HEDDLE_PLAN_TRIPWIRE 1u /* report a crossing of the High zone's border when it happens */
#define HEDDLE_PLAN_MEDIATED 2u /* `heddle run` watches the table and sets kernel policies */
#define HEDDLE_PLAN_QUIET 4u    /* no messages on standard error */

struct heddle_plan {
	__u64 magic;
	__u32 bytes; /* of the whole file */
	__u32 flags;
	__u64 run;     /* goes into the tables' headers */
	__s32 parent;  /* process id of `heddle run`; its direct child makes its table at once */
	__u8 stacks;   /* enum heddle_stacks */
	__u8 low;      /* upper border of the Low zone, percent of the usable stack */
	__u8 high;     /* lower border of the High zone, percent */
	__u8 unused;
	__u32 rules;
	__u32 rules_offset;
	__u32 names;
	__u32 names_offset;
	__u32 texts_offset; /* to the end of the file; the first text is empty */
	__u32 preload; /* offset in the texts: LD_PRELOAD as it was before, for the program to see */
	__u32 flags_program; /* HEDDLE_PROGRAM_* */
	__u32 filters; /* on system calls, that `heddle run` itself is under */
	__u32 user; /* offset in the texts: the library that makes threads user-level ones, for
		     * programs that the run's processes become and start; empty: for none of them */
	__u32 workers; /* that it is told of, 0 none */
};

/* heddle_plan.flags_program */
#define HEDDLE_PROGRAM_HAD_PRELOAD 1u /* LD_PRELOAD was set before: restore it, else remove it */

/* A place in a program: module and offset. A module without a build-id has the id of length 0 and
 * is compared by the hash of its path (FNV-1a, 64 bits) in the id's first 8 bytes. */
struct heddle_where {
	__u8 id[HEDDLE_BUILD_ID_MAX];
	__u32 id_bytes; /* 0: none */
	__u32 unused;
	__u64 offset; /* from the module's load address, as in its symbol table */
};

/* heddle_rule.flags and heddle_name_rule.flags */
#define HEDDLE_RULE_ATTRIBUTES 1u /* role, class, priority, group, category are to be set */
#define HEDDLE_RULE_STACK 2u      /* stack_size is to be given, as `stacks` says */
#define HEDDLE_RULE_REFINED 4u    /* holds only for this refining word */
#define HEDDLE_RULE_TRAMPOLINE 8u /* the start function starts others: `trampoline` says how */
#define HEDDLE_RULE_FORCED 16u    /* stack_size is the user's own word: in every mode */

enum heddle_trampoline {
	HEDDLE_TRAMPOLINE_NONE = 0,  /* the argument is not looked at */
	HEDDLE_TRAMPOLINE_WORD0 = 1, /* the argument points at a vtable pointer or a function pointer */
	HEDDLE_TRAMPOLINE_WORD1 = 2, /* as the second word (Rust's Box<dyn FnOnce>) */
	HEDDLE_TRAMPOLINE_NAME = 3   /* one function starts all; threads are told by their names */
};

/* What holds for threads with this start function. */
struct heddle_rule {
	struct heddle_where start;
	struct heddle_where refine;
	__u32 flags;
	__u32 stack_size; /* bytes below the start function's call */
	__u32 role;       /* offset in the texts, 0 none */
	__u8 thread_class;
	__u8 priority;
	__u8 group;
	__u8 category;
	__u8 trampoline; /* enum heddle_trampoline */
	__u8 unused[15];
};

/* What holds for threads that are given a name like this (fnmatch, no flags). */
struct heddle_name_rule {
	__u32 pattern; /* offset in the texts */
	__u32 flags;   /* HEDDLE_RULE_ATTRIBUTES */
	__u32 role;    /* offset in the texts, 0 none */
	__u8 thread_class;
	__u8 priority;
	__u8 group;
	__u8 category;
};

/* What a process asks `heddle run` before it becomes a program or starts one: whether the library
 * that makes user-level threads is to be in it. The socket's name is the plan's path, in the
 * abstract namespace; the question goes there in one piece, and the answer is a byte, 0 or 1.
 * Behind this come three texts, NUL-ended: the program's absolute path, and LD_PRELOAD and
 * LD_LIBRARY_PATH of the environment that it gets. */
struct heddle_question {
	__u32 bytes; /* of the texts */
	__u32 unused;
	__u64 device; /* of the program's file */
	__u64 inode;
	__u64 address_space; /* RLIMIT_AS */
	__u64 data;	     /* RLIMIT_DATA */
	__u64 stack;	     /* RLIMIT_STACK */
};

#define HEDDLE_QUESTION_BYTES_MAX (64u << 10) /* of the texts */

#ifndef __cplusplus
_Static_assert(sizeof(struct heddle_question) == 48, "the same on every machine");
_Static_assert(sizeof(struct heddle_plan) == 72, "the same on every machine");
_Static_assert(sizeof(struct heddle_where) == 48, "the same on every machine");
_Static_assert(sizeof(struct heddle_rule) == 128, "the same on every machine");
_Static_assert(sizeof(struct heddle_name_rule) == 16, "the same on every machine");
#endif

#endif /* HEDDLE_PLAN_H */
