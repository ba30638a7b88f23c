/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The process's thread table: one file in shared memory, as <heddle/record.h> says.
 *
 * Invariants
 *   - The file is made by this process alone: O_EXCL, O_NOFOLLOW, mode 0600. One that an earlier
 *     process with this number left behind is replaced.
 *   - Memory is reserved before it is touched. A full /dev/shm is an error here, never a signal
 *     later: then a memfd is tried, and private memory at last, which tools cannot see.
 *   - What is not in use yet is mapped without any right: mlockall() does not make it resident.
 *
 *     header | roles | texts | uses | places | records
 */
#define _GNU_SOURCE
#include "descriptor.h"
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#endif

#define ROLES_CAPACITY 4096u
#define CAPACITY_MIN 256u
#define CREATE_ATTEMPTS_MAX 4
#define KEPT_MAX 8
/* Behind the name of a table that is not the only one of its process. */
#define ASIDE ".account"

#define TEXT_OFFSET (HEDDLE_ROLES_OFFSET + ROLES_CAPACITY * 4u)
#define USES_OFFSET (TEXT_OFFSET + TEXT_BYTES)
#define PLACES_OFFSET (USES_OFFSET + USES_CAPACITY * HEDDLE_USE_SIZE)

struct table_map table;

static size_t records_offset(uint32_t capacity)
{
	return PLACES_OFFSET + (size_t)capacity * HEDDLE_PLACE_SIZE;
}

static size_t table_bytes(uint32_t capacity)
{
	return records_offset(capacity) + (size_t)capacity * HEDDLE_RECORD_SIZE;
}

#define PATH_MAX_BYTES 48

static void process_path(char *out)
{
	size_t used = text_copy(out, PATH_MAX_BYTES, "/dev/shm/heddle.");

	strcpy(out + used, digits((uint64_t)control->pid));
}

static void table_path(char *out)
{
	process_path(out);
	if (load(&control->hosted))
		strcat(out, ASIDE);
}

static bool is_of_run(const struct heddle_table *header)
{
	const struct heddle_plan *it = load_acquire(&plan);

	return it && it->run && header->magic == HEDDLE_TABLE_MAGIC && header->run == it->run &&
	       header->pid == control->pid;
}

/* The table at `path`, of the program that this process was before, until an exec: its run may not
 * have read it to the end. It finds it as /dev/shm/heddle.PID.N, for some of many that follow each
 * other. */
static void keep_earlier(const char *path)
{
	const int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct heddle_table header = {0};
	char kept[PATH_MAX_BYTES + 8];
	size_t used;

	if (file < 0)
		return;
	if (pread(file, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
	    is_of_run(&header)) {
		process_path(kept);
		used = strlen(kept);
		strcpy(kept + used, ".1");
		while (link(path, kept) != 0 && errno == EEXIST && kept[used + 1] < '0' + KEPT_MAX)
			kept[used + 1]++;
	}
	close(file);
}

static void keep_account(const char *path)
{
	char account[PATH_MAX_BYTES];

	strcpy(account, path);
	strcat(account, ASIDE);
	keep_earlier(account);
	(void)unlink(account);
}

static int create_shared(void)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	char path[PATH_MAX_BYTES];
	int file = -1;

	table_path(path);
	keep_account(path);
	for (int attempt = 0; attempt < CREATE_ATTEMPTS_MAX && file < 0; attempt++) {
		file = open(path, flags, 0600);
		if (file >= 0 || errno != EEXIST)
			break;
		keep_earlier(path);
		/* No other living process has this number. Another user's file stays: the folder
		 * is sticky. */
		if (unlink(path) != 0)
			break;
	}
	/* The program's umask may have taken rights away, it never adds any. */
	if (file >= 0)
		(void)fchmod(file, 0600);
	return file;
}

static int create_memfd(void)
{
	char name[32];
	size_t used = text_copy(name, sizeof(name), "heddle.");
	int file;

	strcpy(name + used, digits((uint64_t)control->pid));
	file = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC);
	if (file >= 0)
		(void)fchmod(file, 0600);
	return file;
}

/* To pass this limit would raise SIGXFSZ. */
static bool limit_allows(size_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
	       bytes <= limit.rlim_cur;
}

static bool reserve(int file, size_t offset, size_t bytes)
{
	return posix_fallocate(file, (off_t)offset, (off_t)bytes) == 0;
}

/* Memory for what is always used, and for the first slots. */
static bool reserve_first(int file, uint32_t capacity)
{
	const uint32_t slots = capacity < THREADS_STEP ? capacity : THREADS_STEP;

	return reserve(file, 0, TEXT_OFFSET) && reserve(file, TEXT_OFFSET, TEXT_STEP) &&
	       reserve(file, USES_OFFSET, USES_STEP) &&
	       reserve(file, PLACES_OFFSET, (size_t)slots * HEDDLE_PLACE_SIZE) &&
	       reserve(file, records_offset(capacity), (size_t)slots * HEDDLE_RECORD_SIZE);
}

static bool open_range(size_t offset, size_t bytes)
{
	const size_t start = offset & ~(size_t)(PAGE_SIZE - 1);
	const size_t end = (offset + bytes + PAGE_SIZE - 1) & ~(size_t)(PAGE_SIZE - 1);

	return mprotect((char *)table.header + start, end - start, PROT_READ | PROT_WRITE) == 0;
}

static void lay_out(void *base, uint32_t capacity)
{
	char *bytes = base;

	table.header = base;
	table.roles = (void *)(bytes + HEDDLE_ROLES_OFFSET);
	table.texts = bytes + TEXT_OFFSET;
	table.uses = (void *)(bytes + USES_OFFSET);
	table.places = (void *)(bytes + PLACES_OFFSET);
	table.records = (void *)(bytes + records_offset(capacity));
	table.bytes = table_bytes(capacity);
	table.capacity = capacity;
	table.backed = capacity < THREADS_STEP ? capacity : THREADS_STEP;
}

static bool map_file(int file, uint32_t capacity)
{
	const size_t bytes = table_bytes(capacity);
	const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *base;

	if (file >= 0 && (!limit_allows(bytes) || ftruncate(file, (off_t)bytes) != 0 ||
			  !reserve_first(file, capacity)))
		return false;
	base = mmap(NULL, bytes, PROT_NONE, flags | MAP_NORESERVE, file, 0);
	if (base == MAP_FAILED)
		return false;
	lay_out(base, capacity);
	if (open_range(0, TEXT_OFFSET + TEXT_STEP) && open_range(USES_OFFSET, USES_STEP) &&
	    open_range(PLACES_OFFSET, (size_t)table.backed * HEDDLE_PLACE_SIZE) &&
	    open_range(records_offset(capacity), (size_t)table.backed * HEDDLE_RECORD_SIZE))
		return true;
	table_forget();
	return false;
}

/* Under tight limits a smaller table is better than none. */
static bool map_best(int file)
{
	for (uint32_t capacity = THREADS_MAX; capacity >= CAPACITY_MIN; capacity /= 4) {
		if (map_file(file, capacity))
			return true;
	}
	return false;
}

static uint64_t process_start(void)
{
	char text[1024];
	int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t got = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
	uint64_t value = 0;
	const char *at;

	if (file >= 0)
		close(file);
	if (got <= 0)
		return 0;
	text[got] = 0;
	/* The program's name may hold anything: count fields behind its last bracket. */
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	for (at = at ? at + 1 : ""; *at >= '0' && *at <= '9'; at++)
		value = value * 10 + (uint64_t)(*at - '0');
	return value;
}

/* 0 if unknown. */
static uint32_t pid_namespace(void)
{
	struct statx about;
	long failed = syscall(SYS_statx, AT_FDCWD, "/proc/self/ns/pid", 0, STATX_INO, &about);

	return failed ? 0 : (uint32_t)about.stx_ino;
}

static void write_header(uint32_t flags)
{
	struct heddle_table *header = table.header;
	const struct heddle_plan *it = load_acquire(&plan);

	header->header_size = HEDDLE_TABLE_HEADER_SIZE;
	header->record_size = HEDDLE_RECORD_SIZE;
	header->capacity = table.capacity;
	header->records_offset = records_offset(table.capacity);
	header->text_offset = TEXT_OFFSET;
	header->text_size = TEXT_BYTES;
	header->text_used = HEDDLE_TEXT_ALIGN;
	header->roles_offset = HEDDLE_ROLES_OFFSET;
	header->roles_capacity = ROLES_CAPACITY;
	header->roles_used = 1;
	header->pid = control->pid;
	header->flags = HEDDLE_TABLE_PRELOAD | flags;
	header->process_start = process_start();
	header->pid_namespace = pid_namespace();
	header->created_ns = now_ns();
	header->places_offset = PLACES_OFFSET;
	header->uses_offset = USES_OFFSET;
	header->uses_capacity = USES_CAPACITY;
	header->uses_used = 0;
	header->run = it ? it->run : 0;
	/* Written last: a table without it is not finished. */
	store_release(&header->magic, HEDDLE_TABLE_MAGIC);
}

static bool table_in_shared(void)
{
	char path[PATH_MAX_BYTES];
	int file = create_shared();
	bool done = file >= 0 && map_best(file);

	if (file >= 0) {
		close(file);
		table_path(path);
		if (!done)
			(void)unlink(path);
	}
	return done;
}

static bool table_in_memfd(void)
{
	int file = descriptor_raised(create_memfd());

	if (file >= 0 && map_best(file))
		return true; /* The descriptor stays open: it is how tools find the table. */
	if (file >= 0)
		close(file);
	return false;
}

bool table_begin(void)
{
	if (table_in_shared()) {
		write_header(0);
		return true;
	}
	if (table_in_memfd()) {
		write_header(0);
		return true;
	}
	if (!map_best(-1)) {
		say("no memory for the thread table: threads are left alone", NULL);
		return false;
	}
	write_header(HEDDLE_TABLE_PARTIAL);
	say("/dev/shm has no room and a memfd cannot be made: the threads of process ",
	    digits((uint64_t)control->pid), " cannot be shown", NULL);
	return true;
}

void table_forget(void)
{
	if (table.header)
		munmap(table.header, table.bytes);
	memset(&table, 0, sizeof(table));
}

/* Touches the pages in a way that reports what is missing instead of raising a signal. Kernels
 * before 5.14 cannot: there the file's own size decides, as it does for everybody. */
static bool populate(const void *start, size_t bytes)
{
	const uintptr_t low = (uintptr_t)start & ~(uintptr_t)(PAGE_SIZE - 1);
	const uintptr_t high = ((uintptr_t)start + bytes + PAGE_SIZE - 1) &
			       ~(uintptr_t)(PAGE_SIZE - 1);

	return madvise((void *)low, high - low, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

bool table_open(const void *start, size_t bytes)
{
	int error = errno;
	bool done = open_range((size_t)((const char *)start - (char *)table.header), bytes) &&
		    populate(start, bytes);

	errno = error;
	return done;
}

bool table_back(uint32_t slots)
{
	while (table.backed < slots) {
		const uint32_t first = table.backed;
		const uint32_t left = table.capacity - first;
		const uint32_t count = left < THREADS_STEP ? left : THREADS_STEP;

		if (count == 0 ||
		    !table_open(&table.places[first], (size_t)count * HEDDLE_PLACE_SIZE) ||
		    !table_open(&table.records[first], (size_t)count * HEDDLE_RECORD_SIZE)) {
			__atomic_fetch_or(&table.header->flags, HEDDLE_TABLE_PARTIAL,
					  __ATOMIC_RELAXED);
			return false;
		}
		table.backed = first + count;
	}
	return true;
}

/* A memfd goes with the process. */
void table_unlink(void)
{
	char path[PATH_MAX_BYTES];

	table_path(path);
	(void)unlink(path);
}

void table_unlink_process(void)
{
	char path[PATH_MAX_BYTES];

	process_path(path);
	(void)unlink(path);
}

void table_put_aside(void)
{
	char path[PATH_MAX_BYTES], account[PATH_MAX_BYTES];

	process_path(path);
	strcpy(account, path);
	strcat(account, ASIDE);
	/* In memory alone, or there is no room: then only what the other table shows is seen. */
	(void)rename(path, account);
}
