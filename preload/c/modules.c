/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Addresses as what they mean in every run: a module's build-id and an offset in it.
 *
 * The loader is asked by _dl_find_object, where the C library has that: dl_iterate_phdr takes a
 * lock of the loader's, and who has it may wait for what the caller is about to do.
 *
 * Invariant: only what the loader itself lists is read, and of a module only its headers and
 * notes, within the bounds that these state; without that lock by a system call that cannot fault,
 * for the module may go meanwhile. Slow: callers ask once per kind of thread.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <unistd.h>

#define PARTS_MAX 32

/* A module, as either function tells of it. */
struct module {
	uintptr_t base;
	const char *path;
	const ElfW(Phdr) *parts;
	size_t count;
	bool is_held; /* it cannot go */
};

static uint64_t hash_path(const char *path)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *path; path++)
		hash = (hash ^ (uint8_t)*path) * 0x100000001b3ull;
	return hash;
}

static size_t aligned(size_t bytes) { return (bytes + 3) & ~(size_t)3; }

static bool read_unheld(void *to, uintptr_t from, size_t bytes)
{
	struct iovec here = {to, bytes}, there = {(void *)from, bytes};

	return calls_allowed() &&
	       process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

static bool read_of(const struct module *module, void *to, uintptr_t from, size_t bytes)
{
	if (!module->is_held)
		return read_unheld(to, from, bytes);
	memcpy(to, (const void *)from, bytes);
	return true;
}

struct note {
	ElfW(Nhdr) head;
	char name[4];
	uint8_t id[HEDDLE_BUILD_ID_MAX];
};

/* Looks for the build-id among the notes in [at, end). False: they cannot be read. */
static bool note_build_id(const struct module *module, uintptr_t at, uintptr_t end,
			  struct heddle_where *where)
{
	while (at < end && end - at >= sizeof(ElfW(Nhdr))) {
		const size_t left = end - at - sizeof(ElfW(Nhdr));
		struct note note;

		if (!read_of(module, &note, at, end - at < sizeof(note) ? end - at : sizeof(note)))
			return false;
		if (note.head.n_namesz > left || note.head.n_descsz > left ||
		    aligned(note.head.n_namesz) + aligned(note.head.n_descsz) > left)
			return true;
		if (note.head.n_type == NT_GNU_BUILD_ID && note.head.n_namesz == 4 &&
		    memcmp(note.name, "GNU", 4) == 0 && note.head.n_descsz > 0 &&
		    note.head.n_descsz <= HEDDLE_BUILD_ID_MAX) {
			memcpy(where->id, note.id, note.head.n_descsz);
			where->id_bytes = note.head.n_descsz;
			return true;
		}
		at += sizeof(note.head) + aligned(note.head.n_namesz) +
		      aligned(note.head.n_descsz);
	}
	return true;
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

/* What _dl_find_object says (glibc 2.35), with room for what other releases say. */
struct object {
	unsigned long long flags;
	void *start, *end;
	struct link_map *map;
	void *rest[28];
};

static int (*find_object)(void *address, struct object *object);

static struct place_name program;
static bool program_is_known;
static size_t tls_bytes;

static bool name_module(const struct module *module, uintptr_t address, struct place_name *name)
{
	struct heddle_where *where = &name->where;

	memset(where, 0, sizeof(*where));
	where->offset = address - module->base;
	name->path = module->path;
	for (size_t i = 0; i < module->count; i++) {
		const ElfW(Phdr) *part = &module->parts[i];
		const uintptr_t start = module->base + part->p_vaddr;

		if (part->p_type != PT_NOTE)
			continue;
		if (!note_build_id(module, start, start + part->p_memsz, where))
			return false;
		if (where->id_bytes)
			return true;
	}
	const uint64_t hash = hash_path(name->path);

	memcpy(where->id, &hash, sizeof(hash));
	return true;
}

static bool has(const struct module *module, uintptr_t address, struct place_name *name)
{
	bool found = false;

	for (size_t i = 0; i < module->count; i++) {
		const ElfW(Phdr) *part = &module->parts[i];

		if (address - module->base - part->p_vaddr >= part->p_memsz)
			continue;
		if (part->p_type == PT_LOAD) {
			found = true;
			name->code |= (part->p_flags & PF_X) != 0;
			name->constant |= (part->p_flags & PF_W) == 0;
		} else if (part->p_type == PT_GNU_RELRO) {
			name->constant = true;
		}
	}
	return found;
}

/* ---- with the loader's lock */

struct search {
	uintptr_t address;
	struct place_name *name;
	int module; /* which one comes next; the program itself is the first */
};

static struct module held(const struct dl_phdr_info *info, int module)
{
	return (struct module){
		.base = info->dlpi_addr,
		.path = module > 1 ? info->dlpi_name : program_path,
		.parts = info->dlpi_phdr,
		.count = info->dlpi_phnum,
		.is_held = true,
	};
}

static int look(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct search *search = data;
	const struct module module = held(info, ++search->module);

	(void)bytes;
	return has(&module, search->address, search->name) &&
	       name_module(&module, search->address, search->name);
}

static int first(struct dl_phdr_info *info, size_t bytes, void *data)
{
	const struct module module = held(info, 1);

	(void)bytes;
	(void)name_module(&module, module.base, data);
	return 1;
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

/* A child may have been forked while another thread had the lock: what it needs is known before. */
void modules_begin(void)
{
	if (!is_by_loader())
		read_program_path("/proc/self/exe");
	find_object = (__typeof__(find_object))dlsym(RTLD_DEFAULT, "_dl_find_object");
	if (!find_object)
		(void)dlerror(); /* not for the program to read */
	program_is_known = dl_iterate_phdr(first, &program) == 1;
	dl_iterate_phdr(add_tls, &tls_bytes);
}

/* ---- without it */

/* Whether the object begins with its headers, as objects do, and these with all that is `parts`. */
static bool read_parts(const struct object *object, struct module *module,
		       ElfW(Phdr) parts[PARTS_MAX])
{
	const uintptr_t start = (uintptr_t)object->start;
	ElfW(Ehdr) head;

	if (!read_unheld(&head, start, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_phentsize != sizeof(ElfW(Phdr)) || head.e_phnum > PARTS_MAX ||
	    head.e_phoff > (uintptr_t)object->end - start ||
	    !read_unheld(parts, start + head.e_phoff, head.e_phnum * sizeof(ElfW(Phdr))))
		return false;
	module->parts = parts;
	module->count = head.e_phnum;
	for (size_t i = 0; i < module->count; i++) {
		if (parts[i].p_type == PT_LOAD && parts[i].p_offset == 0)
			return module->base + parts[i].p_vaddr == start &&
			       head.e_phoff + module->count * sizeof(ElfW(Phdr)) <=
				       parts[i].p_filesz;
	}
	return false;
}

enum found { FOUND_NOT, FOUND, FOUND_UNSAID };

static enum found find_unheld(uintptr_t address, struct place_name *name)
{
	ElfW(Phdr) parts[PARTS_MAX];
	struct module module = {0};
	struct object object;

	if (!find_object)
		return FOUND_UNSAID;
	if (find_object((void *)address, &object) != 0)
		return FOUND_NOT;
	module.base = object.map->l_addr;
	module.path = object.map->l_name;
	if (!object.map->l_prev && !*module.path)
		module.path = program_path;
	if (!read_parts(&object, &module, parts))
		return FOUND_UNSAID;
	if (!has(&module, address, name))
		return FOUND_NOT;
	return name_module(&module, address, name) ? FOUND : FOUND_UNSAID;
}

/* ---- what others ask */

bool module_find(uintptr_t address, struct place_name *name)
{
	struct search search = {.address = address, .name = name};
	int error = errno;
	enum found found;
	bool done;

	name->code = false;
	name->constant = false;
	found = find_unheld(address, name);
	done = found == FOUND || (found == FOUND_UNSAID && dl_iterate_phdr(look, &search) == 1);
	errno = error;
	return done;
}

bool module_is_loaded(uintptr_t address)
{
	struct place_name name;
	struct object object;

	if (find_object)
		return find_object((void *)address, &object) == 0;
	return module_find(address, &name);
}

bool module_program(struct place_name *name)
{
	*name = program;
	return program_is_known;
}

size_t modules_tls_bytes(void) { return tls_bytes; }

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
