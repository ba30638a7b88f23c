/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The account of threads that a library in front of this one makes, see <heddle/host.h>.
 *
 * Such threads have no slot and no record here: the other library's table shows them while they
 * live. Here are their kinds, and what all threads of a kind did.
 *
 * Invariant: nothing happens unless `begin` was called in this very process; a forked child finds
 * `hosted` emptied with the rest of its control page.
 */
#define _GNU_SOURCE
#include "fault.h"
#include "preload.h"

#include <errno.h>
#include <heddle/host.h>
#include <heddle/pthread_np.h>
#include <string.h>
#include <unistd.h>

static uintptr_t host_low, host_high;
static void (*host_ends)(void);

static bool is_hosted(void) { return process_has_table() && load(&control->hosted); }

bool host_starts(uintptr_t start)
{
	return start - host_low < host_high - host_low && is_hosted();
}

void host_process_ends(void)
{
	if (is_hosted() && host_ends)
		host_ends();
}

/* That library's table has the name that ours had before. */
void host_table_unlink(void)
{
	if (is_hosted())
		table_unlink_process();
}

static uint32_t use_of(uint32_t kind) { return kind && is_hosted() ? kind_at(kind)->use : 0; }

static struct use_birth birth_of(const struct heddle_host_birth *birth)
{
	return (struct use_birth){birth->asked, birth->given, birth->flags};
}

static int begin(uintptr_t low, uintptr_t high, void (*ends)(void))
{
	int error = errno;

	if (!process_ready())
		return 0;
	peak_prepare();
	if (!load(&control->hosted)) {
		host_low = low;
		host_high = high;
		host_ends = ends;
		table_put_aside();
		store_release(&control->hosted, 1);
	}
	errno = error;
	return 1;
}

static uint32_t kind(start_function start, void *argument, uintptr_t site)
{
	int error = errno;
	uint32_t index = is_hosted() ? kind_of(start, argument, site) : 0;

	errno = error;
	return index;
}

static const char *text_of(uint32_t id, uint32_t *bytes)
{
	const char *at = table.texts + (size_t)id * HEDDLE_TEXT_ALIGN;

	*bytes = 0;
	if (!id)
		return NULL;
	memcpy(bytes, at, sizeof(*bytes));
	return at + sizeof(*bytes);
}

static void describe(uint32_t index, uint32_t birth_flags, struct heddle_host_kind *out)
{
	const struct kind *it;

	memset(out, 0, sizeof(*out));
	out->group = HEDDLE_GROUP_NORMAL;
	if (!use_of(index))
		return;
	it = kind_at(index);
	out->role = text_of(it->role ? table.roles[it->role] : 0, &out->role_bytes);
	out->start = text_of(it->start_text, &out->start_bytes);
	out->stack_bytes = stack_is_chosen(it, birth_flags) ? it->stack_rule : 0;
	out->flags = (it->flags & KIND_FORCED ? HEDDLE_HOST_FORCED : 0) |
		     (it->flags & KIND_BY_NAME ? HEDDLE_HOST_BY_NAME : 0);
	out->thread_class = it->thread_class;
	out->priority = it->priority;
	out->group = it->group;
	out->category = it->category;
}

static void created(uint32_t index, const struct heddle_host_birth *birth, uint32_t living)
{
	const struct use_birth plain = birth_of(birth);
	const uint32_t use = use_of(index);
	uint32_t most;

	if (!use)
		return;
	use_created(use, &plain);
	most = load(&table.header->user_peak);
	while (living > most &&
	       !__atomic_compare_exchange_n(&table.header->user_peak, &most, living, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void failed(uint32_t index, const struct heddle_host_birth *birth)
{
	const struct use_birth plain = birth_of(birth);
	const uint32_t use = use_of(index);

	if (use)
		use_failed(use, &plain);
}

static void measured(uint32_t index, uint64_t peak, uint64_t resident)
{
	const uint32_t use = use_of(index);

	if (use)
		use_measured(use, peak, resident);
}

static void ended(uint32_t index, size_t given, uint64_t cpu_ns)
{
	const uint32_t use = use_of(index);

	if (use)
		use_ended(use, given, cpu_ns);
}

static void used(uint32_t index, uint64_t cpu_ns)
{
	const uint32_t use = use_of(index);

	if (use)
		use_cpu(use, cpu_ns);
}

static void overflowed(uint32_t index, uint64_t usable)
{
	const uint32_t use = use_of(index);

	if (use)
		use_overflowed(use, usable);
}

static void said(uint32_t index, const struct heddle_attributes *value)
{
	const size_t length = strnlen(value->role, sizeof(value->role));
	const uint32_t use = use_of(index);
	struct heddle_record record;

	if (!use)
		return;
	memset(&record, 0, sizeof(record));
	record.thread_class = (uint8_t)value->thread_class;
	record.priority = (uint8_t)value->priority;
	record.group = (uint8_t)value->group;
	record.category = (uint8_t)value->category;
	record.role = length ? role_intern(value->role, length) : load(&table.uses[use - 1].role);
	use_attributes(use, &record);
}

static uint32_t named(uint32_t index, const char *name, const struct heddle_host_birth *birth,
		      struct heddle_host_kind *out, int *has_rule)
{
	const struct use_birth plain = birth_of(birth);
	const struct heddle_name_rule *rule;
	const size_t length = strnlen(name, 64);
	uint32_t moved;
	int error = errno;

	*has_rule = 0;
	if (!use_of(index))
		return index;
	if (length && (kind_at(index)->flags & KIND_BY_NAME)) {
		moved = kind_of_name(index, name);
		if (moved && moved != index) {
			use_moved(use_of(index), use_of(moved), &plain);
			index = moved;
		}
	}
	use_named(use_of(index), text_intern(name, length, TEXT_NAME));
	describe(index, birth->flags, out);
	rule = rule_of_name(name);
	if (rule) {
		*has_rule = 1;
		out->role = plan_text(rule->role);
		out->role_bytes = (uint32_t)strlen(out->role);
		out->thread_class = rule->thread_class;
		out->priority = rule->priority;
		out->group = rule->group;
		out->category = rule->category;
		use_ruled(use_of(index), rule);
	}
	errno = error;
	return index;
}

static uint32_t tripwire(void) { return fault_wants_tripwire() ? plan->high : 0; }

static void tripped(uint32_t index, const char *who, uint64_t usable, uintptr_t at)
{
	const uint32_t use = use_of(index);
	int error = errno;

	if (use)
		use_flag(use, HEDDLE_USE_TRIPPED);
	say(who, " ", FAULT_TRIPPED, digits(usable), " bytes:", NULL);
	fault_backtrace(at);
	errno = error;
}

EXPORT const struct heddle_host heddle_preload_host = {
	.version = HEDDLE_HOST_VERSION,
	.kinds = KINDS_SIZE,
	.begin = begin,
	.create = create_from,
	.kind = kind,
	.default_stack = default_stack_bytes,
	.describe = describe,
	.created = created,
	.failed = failed,
	.measured = measured,
	.ended = ended,
	.used = used,
	.overflowed = overflowed,
	.said = said,
	.named = named,
	.tripwire = tripwire,
	.tripped = tripped,
};
