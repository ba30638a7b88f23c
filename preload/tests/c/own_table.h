/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * For test programs: their own thread table, as another process would see it, and checks that end
 * the program with status 1. Status 77 means "cannot be tried here".
 */
#ifndef OWN_TABLE_H
#define OWN_TABLE_H

#include <fcntl.h>
#include <heddle/record.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define CHECK_EQUAL(one, two)                                                                      \
	do {                                                                                       \
		const long long one_ = (long long)(one), two_ = (long long)(two);                  \
		if (one_ != two_) {                                                                \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #one, \
				one_, two_);                                                       \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define SKIP(reason)                                                                               \
	do {                                                                                       \
		fprintf(stderr, "skip: %s\n", reason);                                             \
		_exit(77);                                                                         \
	} while (0)

/* Waits for a child that ends well, and puts its table away. */
static inline void wait_for_child(pid_t child)
{
	char path[64];
	int status;

	CHECK(child > 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQUAL(WEXITSTATUS(status), 0);
	snprintf(path, sizeof(path), "/dev/shm/heddle.%d", child);
	unlink(path);
}

static inline const char *table_map(void)
{
	char path[64];
	struct stat about;
	void *table;
	int file;

	snprintf(path, sizeof(path), "/dev/shm/heddle.%ld", (long)syscall(SYS_getpid));
	file = open(path, O_RDONLY);
	if (file < 0 || fstat(file, &about) != 0)
		return NULL;
	table = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, file, 0);
	close(file);
	return table == MAP_FAILED ? NULL : table;
}

static inline const struct heddle_table *table_header(const char *table)
{
	return (const void *)table;
}

static inline const struct heddle_record *table_record(const char *table, uint32_t slot)
{
	return (const struct heddle_record *)(table + table_header(table)->records_offset) + slot;
}

static inline const struct heddle_use *table_use(const char *table, uint32_t use)
{
	return (const struct heddle_use *)(table + table_header(table)->uses_offset) + use;
}

static inline const struct heddle_place *table_place(const char *table, uint32_t slot)
{
	return (const struct heddle_place *)(table + table_header(table)->places_offset) + slot;
}

/* The record of a living thread. */
static inline const struct heddle_record *table_find(const char *table, int tid)
{
	for (uint32_t slot = 0; slot < table_header(table)->high_water; slot++) {
		const struct heddle_record *record = table_record(table, slot);

		if (record->tid == tid && record->state == HEDDLE_STATE_READY)
			return record;
	}
	return NULL;
}

static inline const char *table_text(const char *table, uint32_t id)
{
	static char text[1025];
	const char *at = table + table_header(table)->text_offset + id * HEDDLE_TEXT_ALIGN;
	uint32_t length = 0;

	if (id)
		memcpy(&length, at, sizeof(length));
	memcpy(text, at + 4, length);
	text[length] = 0;
	return text;
}

/* Uses `bytes` of the stack below the caller, and returns the address of the lowest word. */
static __attribute__((noinline, unused)) uintptr_t use_stack(size_t bytes)
{
	volatile char *lowest = __builtin_alloca(bytes);

	*lowest = 1;
	return (uintptr_t)lowest & ~(uintptr_t)(sizeof(long) - 1);
}

#endif
