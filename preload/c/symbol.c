/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A function of a loaded library, by its name and without dlsym(): see real.c for why not.
 *
 * Invariant: only what the loader lists is read, of a library its dynamic section and the tables
 * that this names. The answer holds as long as the library stays: it is the caller who knows.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <elf.h>
#include <errno.h>
#include <link.h>

struct wanted {
	const char *library; /* how its file name begins */
	const char *name;
	void *found;
};

/* The three tables; 0 where there is none. */
struct tables {
	const ElfW(Sym) *symbols;
	const char *texts;
	const uint32_t *hashes;
};

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

/* glibc adds the library's address to what the section says, musl does not. */
static const void *address_in(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return (const void *)(value < info->dlpi_addr ? value + info->dlpi_addr : value);
}

static struct tables tables_of(const struct dl_phdr_info *info, const ElfW(Phdr) *part)
{
	const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + part->p_vaddr);
	const ElfW(Dyn) *end = entry + part->p_memsz / sizeof(*entry);
	struct tables tables = {0};

	for (; entry < end && entry->d_tag != DT_NULL; entry++) {
		const void *at = address_in(info, entry->d_un.d_ptr);

		if (entry->d_tag == DT_SYMTAB)
			tables.symbols = at;
		else if (entry->d_tag == DT_STRTAB)
			tables.texts = at;
		else if (entry->d_tag == DT_GNU_HASH)
			tables.hashes = at;
	}
	return tables;
}

static const ElfW(Sym) *search(const struct tables *tables, const char *name)
{
	const uint32_t *header = tables->hashes, hash = hash_of(name);
	const uint32_t count = header[0], first = header[1];
	const uint32_t filter_words = header[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *buckets = header + 4 + filter_words, *chain = buckets + count;
	uint32_t index = count ? buckets[hash % count] : 0;

	/* The lowest bit of a hash is the end of its bucket. */
	for (; index >= first && index != 0; index++) {
		const ElfW(Sym) *symbol = &tables->symbols[index];
		const uint32_t here = chain[index - first];

		if ((here | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
		    strcmp(tables->texts + symbol->st_name, name) == 0)
			return symbol;
		if (here & 1)
			return NULL;
	}
	return NULL;
}

static bool is_library(const char *path, const char *start)
{
	const char *slash = strrchr(path, '/');

	return strncmp(slash ? slash + 1 : path, start, strlen(start)) == 0;
}

static int look(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct wanted *wanted = data;

	(void)bytes;
	if (!info->dlpi_name || !is_library(info->dlpi_name, wanted->library))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		struct tables tables;
		const ElfW(Sym) *symbol;

		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		tables = tables_of(info, &info->dlpi_phdr[i]);
		if (!tables.symbols || !tables.texts || !tables.hashes)
			continue;
		symbol = search(&tables, wanted->name);
		if (symbol)
			wanted->found = (void *)(info->dlpi_addr + symbol->st_value);
	}
	return wanted->found != NULL;
}

void *symbol_find(const char *library, const char *name)
{
	struct wanted wanted = {.library = library, .name = name};
	int error = errno;

	dl_iterate_phdr(look, &wanted);
	errno = error;
	return wanted.found;
}
