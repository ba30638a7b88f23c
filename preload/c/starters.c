/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Start functions, and what of their argument tells their threads apart.
 *
 * The refining word is a vtable or a function found through the argument, where one trampoline
 * starts many kinds of threads. Whether to look for it is decided per start function:
 *   1. a rule of the plan says how (or that the name tells, or that nothing does);
 *   2. libstdc++ and GLib start all their threads through one function each: first word;
 *   3. else the first few arguments are looked at, by a system call that cannot fault; if none
 *      leads to code or constants of a module, the argument is never looked at again.
 *
 * Invariant: an entry is filled under the lock `kinds` and published by its address; readers take
 * no lock. After that only `refines` and the counters change.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define STARTERS_SIZE 1024u /* a power of two */
#define LOOKS_MAX 4
/* Each word that means nothing costs a walk through all modules. */
#define MISSES_MAX 64
/* A start function with more words than this has something else there. */
#define WORDS_MAX 64
#define WORDS 3

enum refines {
	REFINES_UNKNOWN,
	REFINES_NEVER,
	REFINES_NAME,
	REFINES_RUST, /* the second word, or the third: to be found out */
	REFINES_WORD0,
	REFINES_WORD1,
	REFINES_WORD2,
};

struct starter {
	uintptr_t start; /* 0: free */
	uint8_t refines; /* enum refines */
	uint8_t trusted; /* its argument may be read directly */
	uint8_t looks;
	uint8_t words;
	uint8_t misses;
};

struct starters_map {
	struct starter starters[STARTERS_SIZE];
	uint32_t used;
};

static struct starters_map *map;

bool starters_begin(void)
{
	if (map)
		munmap(map, sizeof(*map));
	map = mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		map = NULL;
	return map != NULL;
}

static bool has_suffix_of(const char *path, const char *library)
{
	const char *name = strrchr(path, '/');

	return strncmp(name ? name + 1 : path, library, strlen(library)) == 0;
}

static uint8_t refines_by_rule(const struct heddle_rule *rule)
{
	switch (rule->trampoline) {
	case HEDDLE_TRAMPOLINE_WORD0:
		return REFINES_WORD0;
	case HEDDLE_TRAMPOLINE_WORD1:
		return REFINES_RUST;
	case HEDDLE_TRAMPOLINE_NAME:
		return REFINES_NAME;
	default:
		return REFINES_NEVER;
	}
}

static void describe_starter(struct starter *starter, const struct place_name *name)
{
	starter->refines = REFINES_UNKNOWN;
	if (has_suffix_of(name->path, "libstdc++.so") || has_suffix_of(name->path, "libglib-2.0.so")) {
		starter->refines = REFINES_WORD0;
		starter->trusted = 1;
	}
	for (uint32_t i = 0; plan && i < plan->rules; i++) {
		const struct heddle_rule *rule = &plan_rules()[i];

		if (!(rule->flags & HEDDLE_RULE_TRAMPOLINE) ||
		    !same_where(&rule->start, &name->where))
			continue;
		starter->refines = refines_by_rule(rule);
		starter->trusted = 1;
		return;
	}
}

static struct starter *starter_search(uintptr_t start)
{
	uint32_t at = mix(start, 0) & (STARTERS_SIZE - 1);

	for (;; at = (at + 1) & (STARTERS_SIZE - 1)) {
		const uintptr_t here = load_acquire(&map->starters[at].start);

		if (here == start || here == 0)
			return &map->starters[at];
	}
}

static COLD struct starter *starter_add(uintptr_t start)
{
	struct starter new = {.start = start, .refines = REFINES_NEVER}, *starter = NULL;
	struct place_name name;

	if (module_find(start, &name))
		describe_starter(&new, &name);
	lock_take(&control->kinds);
	/* A quarter stays free, so that every search ends. */
	if (map->used < STARTERS_SIZE / 4 * 3) {
		starter = starter_search(start);
		if (starter->start == 0) {
			starter->refines = new.refines;
			starter->trusted = new.trusted;
			store_release(&starter->start, start);
			map->used++;
		}
	}
	lock_give(&control->kinds);
	return starter;
}

struct starter *starter_of(uintptr_t start)
{
	struct starter *starter = starter_search(start);

	return starter->start ? starter : starter_add(start);
}

/* ---- the refining word */

/* The first words that the argument points at, without a fault wherever it points. */
static bool read_words(void *argument, uintptr_t words[WORDS])
{
	struct iovec here = {words, WORDS * sizeof(words[0])};
	struct iovec there = {argument, WORDS * sizeof(words[0])};

	if (!calls_allowed())
		return false;
	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)here.iov_len;
}

static bool may_point(const void *argument)
{
	return (uintptr_t)argument >= PAGE_SIZE && (uintptr_t)argument % sizeof(uintptr_t) == 0;
}

/* What leads into a library of heddle's that stands before the C library is what its calls have
 * left on a stack, behind what the program has put there. */
static bool means_something(uintptr_t word)
{
	struct place_name name;

	return word >= PAGE_SIZE && module_find(word, &name) && (name.code || name.constant) &&
	       !has_suffix_of(name.path, "libheddle-");
}

/* Looks whether an argument of this start function leads to something that tells its threads
 * apart. */
static COLD uintptr_t look_for_word(struct starter *starter, void *argument)
{
	uintptr_t words[WORDS];

	if (may_point(argument) && read_words(argument, words)) {
		for (int i = 0; i < WORDS; i++) {
			if (means_something(words[i])) {
				store(&starter->refines, REFINES_WORD0 + i);
				return words[i];
			}
		}
	}
	if (__atomic_add_fetch(&starter->looks, 1, __ATOMIC_RELAXED) >= LOOKS_MAX)
		store(&starter->refines, REFINES_NEVER);
	return 0;
}

/* Rust's threads are started with a box whose vtable is the second word, since 1.90 the third.
 * One of a program's own, so the same for all threads of this start function. */
static COLD uintptr_t settle_word(struct starter *starter, const uintptr_t *words)
{
	const uint8_t refines = means_something(words[1])   ? REFINES_WORD1
				: means_something(words[2]) ? REFINES_WORD2
							    : REFINES_NEVER;

	store(&starter->refines, refines);
	return refines == REFINES_NEVER ? 0 : words[refines - REFINES_WORD0];
}

uintptr_t starter_word(struct starter *starter, void *argument)
{
	const uint8_t refines = load(&starter->refines);
	uintptr_t words[WORDS];

	if (refines == REFINES_NEVER || refines == REFINES_NAME)
		return 0;
	if (refines == REFINES_UNKNOWN)
		return look_for_word(starter, argument);
	if (!may_point(argument))
		return 0;
	if (refines == REFINES_RUST)
		return settle_word(starter, argument);
	if (starter->trusted)
		return ((const uintptr_t *)argument)[refines - REFINES_WORD0];
	return read_words(argument, words) ? words[refines - REFINES_WORD0] : 0;
}

/* ---- what kinds.c finds out */

bool starter_may_refine(struct starter *starter)
{
	if (starter->trusted ||
	    __atomic_add_fetch(&starter->words, 1, __ATOMIC_RELAXED) <= WORDS_MAX)
		return true;
	store(&starter->refines, REFINES_NEVER);
	return false;
}

void starter_missed(struct starter *starter)
{
	if (__atomic_add_fetch(&starter->misses, 1, __ATOMIC_RELAXED) >= MISSES_MAX)
		store(&starter->refines, REFINES_NEVER);
}

bool starter_is_told_by_name(const struct starter *starter)
{
	return load(&starter->refines) == REFINES_NAME;
}

void starters_forget_addresses(void)
{
	for (uint32_t i = 0; i < STARTERS_SIZE; i++) {
		const uintptr_t start = load(&map->starters[i].start);

		if (start > NO_ADDRESS && !module_is_loaded(start))
			store(&map->starters[i].start, NO_ADDRESS);
	}
}
