/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Addresses as what they mean in every run: a module's build-id and an offset in it.
 *
 * Invariant: only what the loader itself lists is read, and of a module only its program headers
 * and notes, within the bounds that these state. Slow (the loader's list is walked): callers ask
 * once per kind of thread.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

struct search {
	uintptr_t address;
	struct place_name *name;
	int module; /* which one comes next; the program itself is the first */
	bool found;
};

static uint64_t hash_path(const char *path)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *path; path++)
		hash = (hash ^ (uint8_t)*path) * 0x100000001b3ull;
	return hash;
}

static size_t aligned(size_t bytes) { return (bytes + 3) & ~(size_t)3; }

/* Looks for the build-id among the notes in [at, end). */
static bool note_build_id(const char *at, const char *end, struct heddle_where *where)
{
	while (at < end && (size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const void *)at;
		const char *name = at + sizeof(*note);
		const size_t left = (size_t)(end - name);

		if (note->n_namesz > left || note->n_descsz > left ||
		    aligned(note->n_namesz) + aligned(note->n_descsz) > left)
			return false;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
		    memcmp(name, "GNU", 4) == 0 && note->n_descsz > 0 &&
		    note->n_descsz <= HEDDLE_BUILD_ID_MAX) {
			memcpy(where->id, name + aligned(note->n_namesz), note->n_descsz);
			where->id_bytes = note->n_descsz;
			return true;
		}
		at = name + aligned(note->n_namesz) + aligned(note->n_descsz);
	}
	return false;
}

/* The program has no name in glibc's list, and in musl's the one that it was called by. Read at
 * the begin: later a filter, or another root folder, may be in the way. */
static char program_path[512];

static bool read_program_path(const char *link)
{
	ssize_t length = readlink(link, program_path, sizeof(program_path) - 1);

	program_path[length > 0 ? length : 0] = 0;
	return length > 0;
}

/* The process is the loader's, which was called to load what is now the program's first word (if
 * it was not told to say another one). */
static bool is_by_loader(void)
{
	char link[32] = "/proc/self/fd/";
	const size_t used = strlen(link);
	bool found;
	int fd;

	if (getauxval(AT_BASE) != 0)
		return false;
	fd = open(program_invocation_name, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return false;
	text_copy(link + used, sizeof(link) - used, digits((uint64_t)fd));
	found = read_program_path(link);
	close(fd);
	return found;
}

void modules_begin(void)
{
	if (!is_by_loader())
		read_program_path("/proc/self/exe");
}

static void name_module(struct search *search, const struct dl_phdr_info *info)
{
	struct heddle_where *where = &search->name->where;

	memset(where, 0, sizeof(*where));
	where->offset = search->address - info->dlpi_addr;
	search->name->path = search->module > 1 ? info->dlpi_name : program_path;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		const char *start = (const char *)(info->dlpi_addr + part->p_vaddr);

		if (part->p_type == PT_NOTE && note_build_id(start, start + part->p_memsz, where))
			return;
	}
	const uint64_t hash = hash_path(search->name->path);

	memcpy(where->id, &hash, sizeof(hash));
}

static bool part_holds(const struct dl_phdr_info *info, const ElfW(Phdr) *part, uintptr_t address)
{
	return address - info->dlpi_addr - part->p_vaddr < part->p_memsz;
}

static int look(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct search *search = data;
	struct place_name *name = search->name;

	(void)bytes;
	search->module++;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (!part_holds(info, part, search->address))
			continue;
		if (part->p_type == PT_LOAD) {
			search->found = true;
			name->code |= (part->p_flags & PF_X) != 0;
			name->constant |= (part->p_flags & PF_W) == 0;
		} else if (part->p_type == PT_GNU_RELRO) {
			name->constant = true;
		}
	}
	if (search->found)
		name_module(search, info);
	return search->found;
}

bool module_find(uintptr_t address, struct place_name *name)
{
	struct search search = {.address = address, .name = name};
	int error = errno;

	name->code = false;
	name->constant = false;
	dl_iterate_phdr(look, &search);
	errno = error;
	return search.found;
}

static int first(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct search *search = data;

	(void)bytes;
	search->module = 1;
	search->address = info->dlpi_addr;
	name_module(search, info);
	return 1;
}

bool module_program(struct place_name *name)
{
	struct search search = {.name = name};
	int error = errno;
	bool done = dl_iterate_phdr(first, &search) == 1;

	errno = error;
	return done;
}

/* "BUILD-ID+OFFSET PATH" without an end. */
size_t module_text(const struct place_name *name, char *out, size_t room)
{
	const struct heddle_where *where = &name->where;
	size_t used = 0;

	if (room < 2 * HEDDLE_BUILD_ID_MAX + 32)
		return 0;
	for (uint32_t i = 0; i < where->id_bytes; i++) {
		out[used++] = "0123456789abcdef"[where->id[i] >> 4];
		out[used++] = "0123456789abcdef"[where->id[i] & 15];
	}
	if (used == 0)
		out[used++] = '-';
	out[used++] = '+';
	used += text_hex(out + used, room - used, where->offset);
	out[used++] = ' ';
	/* A line break in a path would begin another line of the text. */
	for (const char *at = name->path; *at && used < room; at++)
		out[used++] = *at == '\n' ? '?' : *at;
	return used;
}

static int add_tls(struct dl_phdr_info *info, size_t bytes, void *sum)
{
	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_TLS)
			*(size_t *)sum += part->p_memsz + part->p_align;
	}
	return 0;
}

size_t modules_tls_bytes(void)
{
	size_t sum = 0;
	int error = errno;

	dl_iterate_phdr(add_tls, &sum);
	errno = error;
	return sum;
}
