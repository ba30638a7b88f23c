/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Interned texts of the table: each start function, name and role is kept once.
 *
 * Invariants
 *   - Append only: a text whose id is out is never moved or changed. `text_used` and
 *     `roles_used` are raised after the bytes are there.
 *   - Every text is UTF-8, whatever bytes a program gives as a name.
 *   - Names, of which a program may invent as many as it likes, never take the last quarter.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <string.h>

#define KNOWN_MAX 4096u /* texts that are found again; a power of two */

struct known {
	uint32_t hash;
	uint32_t id;
};

static struct known known[KNOWN_MAX];
static uint32_t known_count;
static uint32_t backed_bytes;

void texts_begin(void)
{
	memset(known, 0, sizeof(known));
	known_count = 0;
	backed_bytes = TEXT_STEP;
}

static uint32_t hash_of(const char *bytes, size_t length)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)bytes[i]) * 16777619u;
	return hash;
}

/* Bytes of the character that `at` begins with, 0 if it is no character of UTF-8. */
static size_t character(const uint8_t *at, size_t left)
{
	const uint8_t first = at[0];
	const size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2
			      : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;

	if (length > left)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	}
	/* Over-long forms, surrogates, and what lies beyond U+10FFFF. */
	if ((first == 0xe0 && at[1] < 0xa0) || (first == 0xed && at[1] > 0x9f) ||
	    (first == 0xf0 && at[1] < 0x90) || (first == 0xf4 && at[1] > 0x8f))
		return 0;
	return length;
}

/* A copy that is UTF-8: bytes that are not become question marks. */
static size_t clean(char *out, const char *bytes, size_t length)
{
	size_t used = 0;

	for (size_t i = 0; i < length && used < HEDDLE_TEXT_BYTES_MAX;) {
		const size_t step = character((const uint8_t *)bytes + i, length - i);

		if (used + step > HEDDLE_TEXT_BYTES_MAX)
			break;
		if (step == 0) {
			out[used++] = '?';
			i++;
		} else {
			memcpy(out + used, bytes + i, step);
			used += step;
			i += step;
		}
	}
	return used;
}

static bool is_text(uint32_t id, const char *bytes, size_t length)
{
	const char *at = table.texts + (size_t)id * HEDDLE_TEXT_ALIGN;
	uint32_t kept;

	memcpy(&kept, at, sizeof(kept));
	return kept == length && memcmp(at + sizeof(kept), bytes, length) == 0;
}

static uint32_t full(void)
{
	__atomic_fetch_or(&table.header->flags, HEDDLE_TABLE_TEXTS_FULL, __ATOMIC_RELAXED);
	return 0;
}

/* Memory for the texts below `end`. */
static bool back(uint32_t end)
{
	while (backed_bytes < end) {
		if (!table_open(table.texts + backed_bytes, TEXT_STEP))
			return false;
		backed_bytes += TEXT_STEP;
	}
	return true;
}

static uint32_t append(const char *bytes, uint32_t length, enum text_sort sort)
{
	const uint32_t limit = sort == TEXT_NAME ? TEXT_BYTES / 4 * 3 : TEXT_BYTES;
	const uint32_t start = table.header->text_used;
	const uint32_t end = (start + 4 + length + HEDDLE_TEXT_ALIGN - 1) &
			     ~(HEDDLE_TEXT_ALIGN - 1);

	if (end > limit || !back(end))
		return full();
	memcpy(table.texts + start, &length, sizeof(length));
	memcpy(table.texts + start + sizeof(length), bytes, length);
	store_release(&table.header->text_used, end);
	return start / HEDDLE_TEXT_ALIGN;
}

static uint32_t intern_locked(const char *bytes, size_t length, enum text_sort sort)
{
	const uint32_t hash = hash_of(bytes, length) | 1u;
	uint32_t at = hash & (KNOWN_MAX - 1), id;

	for (; known[at].hash; at = (at + 1) & (KNOWN_MAX - 1)) {
		if (known[at].hash == hash && is_text(known[at].id, bytes, length))
			return known[at].id;
	}
	/* The index stays a quarter empty, so that the search above ends. */
	if (known_count >= KNOWN_MAX / 4 * 3)
		return full();
	id = append(bytes, (uint32_t)length, sort);
	if (id) {
		known[at] = (struct known){hash, id};
		known_count++;
	}
	return id;
}

uint32_t text_intern(const char *bytes, size_t length, enum text_sort sort)
{
	char copy[HEDDLE_TEXT_BYTES_MAX];
	const size_t used = clean(copy, bytes, length);
	uint32_t id;

	if (used == 0)
		return 0;
	lock_take(&control->texts);
	id = intern_locked(copy, used, sort);
	lock_give(&control->texts);
	return id;
}

uint16_t role_intern(const char *bytes, size_t length)
{
	const uint32_t text = length ? text_intern(bytes, length, TEXT_START) : 0;
	struct heddle_table *header = table.header;
	uint32_t role = 0;

	if (!text)
		return 0;
	lock_take(&control->texts);
	for (uint32_t i = 1; i < header->roles_used && !role; i++) {
		if (table.roles[i] == text)
			role = i;
	}
	if (!role && header->roles_used < header->roles_capacity) {
		role = header->roles_used;
		table.roles[role] = text;
		store_release(&header->roles_used, role + 1);
	}
	lock_give(&control->texts);
	return (uint16_t)role;
}
