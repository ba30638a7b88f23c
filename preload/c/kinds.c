/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Kinds of threads: what a start function and an argument mean.
 *
 * A kind is known by two addresses, the start function and the refining word; both are turned
 * into (build-id, offset) once, when the first thread of the kind is created, and compared with
 * the plan's rules then. Later ones cost two short searches.
 *
 * The refining word tells threads apart that one trampoline starts; see starters.c.
 *
 * Invariant: entries are filled under the lock and published by their last field; readers take
 * no lock.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define NAMED_MAX (USES_CAPACITY / 2)
#define ENTRY_TEXT_MAX 440u
#define USES_PER_STEP (USES_STEP / HEDDLE_USE_SIZE)

struct kinds_map {
	struct kind kinds[KINDS_SIZE];
	uint32_t kinds_used;
	uint32_t named; /* kinds by name */
};

static struct kinds_map *map;

bool kinds_begin(void)
{
	if (map)
		munmap(map, sizeof(*map));
	map = mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		map = NULL;
	return map != NULL && starters_begin();
}

struct kind *kind_at(uint32_t kind) { return &map->kinds[kind - 1]; }

/* ---- kinds */

static struct kind *kind_search(uintptr_t start, uintptr_t refine)
{
	uint32_t at = mix(start, refine) & (KINDS_SIZE - 1);

	for (;; at = (at + 1) & (KINDS_SIZE - 1)) {
		struct kind *kind = &map->kinds[at];

		if (!load_acquire(&kind->use) || (kind->start == start && kind->refine == refine))
			return kind;
	}
}

static uint32_t index_of(const struct kind *kind) { return (uint32_t)(kind - map->kinds) + 1; }

static bool rule_holds(const struct heddle_rule *rule, const struct place_name *start,
		       const struct place_name *refine)
{
	if (!same_where(&rule->start, &start->where))
		return false;
	return !(rule->flags & HEDDLE_RULE_REFINED) ||
	       (refine && same_where(&rule->refine, &refine->where));
}

static uint32_t rank_of(const struct heddle_rule *rule)
{
	return (rule->flags & HEDDLE_RULE_FORCED ? 2 : 0) +
	       (rule->flags & HEDDLE_RULE_REFINED ? 1 : 0) + 1;
}

/* The user's own word before history, a rule for the refining word before one without, and the
 * earlier one of two equals. */
static void apply_rules(struct kind *kind, const struct place_name *start,
			const struct place_name *refine)
{
	uint32_t stack_rank = 0, attributes_rank = 0;

	for (uint32_t i = 0; plan && i < plan->rules; i++) {
		const struct heddle_rule *rule = &plan_rules()[i];
		const uint32_t rank = rank_of(rule), plain = rank & 1 ? 1 : 2;

		if (!rule_holds(rule, start, refine))
			continue;
		if ((rule->flags & HEDDLE_RULE_STACK) && rank > stack_rank) {
			stack_rank = rank;
			kind->stack_rule = rule->stack_size;
			kind->flags = (uint8_t)((kind->flags & ~KIND_FORCED) |
						(rank > 2 ? KIND_FORCED : 0));
		}
		if ((rule->flags & HEDDLE_RULE_ATTRIBUTES) && plain > attributes_rank) {
			attributes_rank = plain;
			kind->flags |= KIND_ATTRIBUTES;
			const char *role = plan_text(rule->role);

			kind->role = role_intern(role, strlen(role));
			kind->thread_class = rule->thread_class;
			kind->priority = rule->priority;
			kind->group = rule->group;
			kind->category = rule->category;
		}
	}
}

static uint32_t start_text(const struct place_name *start, const struct place_name *refine)
{
	char text[2 * ENTRY_TEXT_MAX + 1];
	size_t used = module_text(start, text, ENTRY_TEXT_MAX);

	if (refine) {
		text[used++] = '\n';
		used += module_text(refine, text + used, ENTRY_TEXT_MAX);
	}
	return text_intern(text, used, TEXT_START);
}

static uint32_t site_text(uintptr_t site)
{
	char text[ENTRY_TEXT_MAX];
	struct place_name name;

	/* A return address may be the next function's first byte: the call lies before it. */
	if (!site || !module_find(site - 1, &name))
		return 0;
	if (site_is_a_librarys(name.path)) {
		site = site_of_program(site, name.path);
		if (!module_find(site - 1, &name))
			return 0;
	}
	name.where.offset++;
	return text_intern(text, module_text(&name, text, sizeof(text)), TEXT_START);
}

/* The use with this start text, so that a kind found anew goes on where it was. Threads told by
 * their names share the text. */
static uint32_t use_known(const struct kind *kind)
{
	const bool own = (kind->flags & KIND_BY_NAME) && kind->refine;

	for (uint32_t i = 0; i < table.header->uses_used && kind->start_text && !own; i++) {
		if (table.uses[i].start == kind->start_text)
			return i + 1;
	}
	return 0;
}

/* A new use. The caller holds the lock `kinds`. */
static uint32_t use_add(const struct kind *kind, uint32_t site)
{
	const uint32_t used = table.header->uses_used;
	struct heddle_use *use = &table.uses[used];

	if (used >= USES_CAPACITY ||
	    (used && used % USES_PER_STEP == 0 && !table_open(use, USES_STEP)))
		return 0;
	use->flags = kind->flags & KIND_MAIN ? HEDDLE_USE_MAIN : 0;
	use->start = kind->start_text;
	use->site = site;
	use->role = kind->role;
	use->thread_class = kind->thread_class;
	use->priority = kind->priority;
	use->group = kind->group;
	use->category = kind->category;
	store_release(&table.header->uses_used, used + 1);
	return used + 1;
}

static COLD uint32_t kind_publish(const struct kind *new, uint32_t site)
{
	uint32_t index = 0, use = 0;
	struct kind *kind;

	lock_take(&control->kinds);
	kind = kind_search(new->start, new->refine);
	if (kind->use) {
		index = index_of(kind);
	} else if (map->kinds_used < KINDS_SIZE / 4 * 3) {
		use = use_known(new);
		if (!use)
			use = use_add(new, site);
	}
	if (use) {
		*kind = *new;
		kind->use = 0;
		store_release(&kind->use, use);
		map->kinds_used++;
		index = index_of(kind);
	}
	lock_give(&control->kinds);
	return index;
}

static COLD uint32_t kind_add(struct starter *starter, uintptr_t start, uintptr_t word,
			      uintptr_t site)
{
	struct kind new = {.start = start, .refine = word, .group = HEDDLE_GROUP_NORMAL};
	struct place_name start_name, word_name;
	bool refined = word && module_find(word, &word_name);

	/* Past this many, the words tell nothing: all further threads are of one kind. */
	if (refined && !starter_may_refine(starter))
		refined = false;
	if (!refined)
		new.refine = 0;
	if (!refined && word) {
		struct kind *plain = kind_search(start, 0);

		starter_missed(starter);
		if (plain->use)
			return index_of(plain);
	}
	if (module_find(start, &start_name)) {
		const struct place_name *refine = refined ? &word_name : NULL;

		new.start_text = start_text(&start_name, refine);
		apply_rules(&new, &start_name, refine);
	}
	if (starter_is_told_by_name(starter))
		new.flags |= KIND_BY_NAME;
	return kind_publish(&new, site_text(site));
}

uint32_t kind_of(start_function start, void *argument, uintptr_t site)
{
	struct starter *starter = starter_of((uintptr_t)start);
	struct kind *kind;
	uintptr_t word;

	if (!starter)
		return 0;
	word = starter_word(starter, argument);
	kind = kind_search((uintptr_t)start, word);
	return kind->use ? index_of(kind) : kind_add(starter, (uintptr_t)start, word, site);
}

/* The address that stands for "the process's first thread". */
static const char main_marker;

uint32_t kind_of_main(void)
{
	struct kind new = {.start = (uintptr_t)&main_marker,
			   .group = HEDDLE_GROUP_NORMAL,
			   .flags = KIND_MAIN};
	char text[ENTRY_TEXT_MAX];
	struct place_name name;

	/* "BUILD-ID+0 PROGRAM": what program it was can be told after the end, too. */
	if (module_program(&name))
		new.start_text = text_intern(text, module_text(&name, text, sizeof(text)),
					     TEXT_START);

	return kind_publish(&new, 0);
}

uint32_t kind_of_name(uint32_t index, const char *name)
{
	struct kind new = *kind_at(index);
	uint64_t hash = 0xcbf29ce484222325ull;
	const struct kind *known;
	uint32_t site;

	for (const char *at = name; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 0x100000001b3ull;
	/* Odd, so that it is no pointer that kind_of could meet. */
	new.refine = (uintptr_t)hash | 1u;
	known = kind_search(new.start, new.refine);
	if (known->use)
		return index_of(known);
	/* "connection 4711": names may be as many as threads, and other kinds need room too. */
	if (__atomic_add_fetch(&map->named, 1, __ATOMIC_RELAXED) > NAMED_MAX)
		return 0;
	site = table.uses[new.use - 1].site;
	new.use = 0;
	return kind_publish(&new, site);
}

/* After dlclose() another module may come to lie where a known address was. Entries stay where
 * they are, under an address that nothing has. */
void kinds_forget_addresses(void)
{
	starters_forget_addresses();
	for (uint32_t i = 0; i < KINDS_SIZE; i++) {
		struct kind *kind = &map->kinds[i];

		if (!load_acquire(&kind->use) || (kind->flags & KIND_MAIN))
			continue;
		if (!module_is_loaded(kind->start) ||
		    (kind->refine && !(kind->flags & KIND_BY_NAME) &&
		     !module_is_loaded(kind->refine)))
			store(&kind->start, NO_ADDRESS);
	}
}
