/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The sums per kind of thread, for the report and the profile.
 *
 * Invariant: one writer at a time, under one lock for all uses; each change is one turn of the
 * entry's sequence, so that a reader never sees counters of two moments. Counters saturate.
 */
#define _GNU_SOURCE
#include "preload.h"

static struct heddle_use *use_open(uint32_t use, uint32_t *odd)
{
	struct heddle_use *it = &table.uses[use - 1];

	lock_take(&control->uses);
	*odd = it->sequence | 1u;
	store(&it->sequence, *odd);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return it;
}

static void use_close(struct heddle_use *it, uint32_t odd)
{
	store_release(&it->sequence, odd + 1u);
	lock_give(&control->uses);
}

static void count(uint32_t *counter)
{
	if (*counter != UINT32_MAX)
		(*counter)++;
}

static void add_reserved(struct heddle_use *it, size_t bytes)
{
	it->reserved += bytes;
	it->reserved_peak = max_u64(it->reserved_peak, it->reserved);
}

static void drop_reserved(struct heddle_use *it, size_t bytes)
{
	it->reserved -= min_u64(it->reserved, bytes);
}

static void note_birth(struct heddle_use *it, const struct use_birth *birth)
{
	it->flags |= birth->flags;
	it->stack_asked = saturate(birth->asked);
	it->stack_given = saturate(birth->given);
}

void use_created(uint32_t use, const struct use_birth *birth)
{
	uint32_t odd;
	struct heddle_use *it = use_open(use, &odd);

	note_birth(it, birth);
	count(&it->created);
	add_reserved(it, birth->given);
	use_close(it, odd);
}

/* Takes back what use_created said: the thread did not come to be. */
void use_not_created(uint32_t use, const struct use_birth *birth)
{
	uint32_t odd;
	struct heddle_use *it = use_open(use, &odd);

	if (it->created != UINT32_MAX)
		it->created--;
	drop_reserved(it, birth->given);
	use_close(it, odd);
}

void use_failed(uint32_t use, const struct use_birth *birth)
{
	uint32_t odd;
	struct heddle_use *it = use_open(use, &odd);

	/* Sizes are those of threads that came to be, if any did. */
	if (it->created == 0)
		note_birth(it, birth);
	count(&it->failed);
	use_close(it, odd);
}

void use_measured(uint32_t use, uint64_t peak, uint64_t resident)
{
	struct heddle_use *known = &table.uses[use - 1];
	uint32_t odd;

	/* Mostly nothing new. */
	if (peak <= load(&known->peak) && resident <= load(&known->resident))
		return;
	struct heddle_use *it = use_open(use, &odd);

	it->peak = (uint32_t)max_u64(it->peak, saturate(peak));
	it->resident = (uint32_t)max_u64(it->resident, saturate(resident));
	use_close(it, odd);
}

void use_ended(uint32_t use, size_t given, uint64_t cpu_ns)
{
	uint32_t odd;
	struct heddle_use *it = use_open(use, &odd);

	count(&it->ended);
	it->cpu_ns += cpu_ns;
	drop_reserved(it, given);
	use_close(it, odd);
}

/* Of a thread that lives until the process's end. */
void use_cpu(uint32_t use, uint64_t cpu_ns)
{
	uint32_t odd;
	struct heddle_use *it = use_open(use, &odd);

	it->cpu_ns += cpu_ns;
	use_close(it, odd);
}

/* A thread turned out to be of another kind, when it was given its name. */
void use_moved(uint32_t from, uint32_t to, const struct use_birth *birth)
{
	use_not_created(from, birth);
	use_created(to, birth);
}

void use_named(uint32_t use, uint32_t name)
{
	uint32_t odd;
	struct heddle_use *it;

	if (load(&table.uses[use - 1].name) == name)
		return;
	it = use_open(use, &odd);
	it->name = name;
	use_close(it, odd);
}

/* Without the lock: for signal handlers. A single field is valid by itself. */
void use_flag(uint32_t use, uint32_t flag)
{
	__atomic_fetch_or(&table.uses[use - 1].flags, flag, __ATOMIC_RELAXED);
}

void use_overflowed(uint32_t use, uint64_t usable)
{
	struct heddle_use *it = &table.uses[use - 1];

	use_flag(use, HEDDLE_USE_OVERFLOWED);
	if (load(&it->peak) < usable)
		store(&it->peak, saturate(usable));
}

void use_ruled(uint32_t use, const struct heddle_name_rule *rule)
{
	const char *role = plan_text(rule->role);
	const uint16_t number = *role ? role_intern(role, strlen(role)) : 0;
	uint32_t odd;
	struct heddle_use *it = use_open(use, &odd);

	it->role = number ? number : it->role;
	it->thread_class = rule->thread_class;
	it->priority = rule->priority;
	it->group = rule->group;
	it->category = rule->category;
	use_close(it, odd);
}

void use_attributes(uint32_t use, const struct heddle_record *record)
{
	uint32_t odd;
	struct heddle_use *it = use_open(use, &odd);

	it->role = record->role;
	it->thread_class = record->thread_class;
	it->priority = record->priority;
	it->group = record->group;
	it->category = record->category;
	use_close(it, odd);
}
