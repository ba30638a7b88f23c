/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Reads the plan that the run wrote for its processes.
 *
 * Invariant: the plan is a private copy, and every offset and count in it was compared with its
 * size before anybody looks at it. A plan with anything wrong in it is no plan: the library then
 * only observes.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct heddle_plan *plan;

static bool area_fits(const struct heddle_plan *it, uint32_t offset, uint32_t count, size_t size)
{
	return offset % 8 == 0 && offset >= sizeof(*it) && offset <= it->bytes &&
	       count <= (it->bytes - offset) / size;
}

static bool text_fits(const struct heddle_plan *it, uint32_t offset)
{
	return offset < it->bytes - it->texts_offset;
}

static bool rules_fit(const struct heddle_plan *it)
{
	const char *base = (const char *)it;
	const struct heddle_rule *rules = (const void *)(base + it->rules_offset);
	const struct heddle_name_rule *names = (const void *)(base + it->names_offset);

	for (uint32_t i = 0; i < it->rules; i++) {
		const struct heddle_rule *rule = &rules[i];

		if (!text_fits(it, rule->role) || rule->start.id_bytes > HEDDLE_BUILD_ID_MAX ||
		    rule->refine.id_bytes > HEDDLE_BUILD_ID_MAX ||
		    rule->thread_class > HEDDLE_CLASS_TIME_CRITICAL || rule->priority > 99 ||
		    rule->group > HEDDLE_GROUP_BACKGROUND ||
		    rule->category > HEDDLE_CATEGORY_BACKGROUND)
			return false;
	}
	for (uint32_t i = 0; i < it->names; i++) {
		const struct heddle_name_rule *rule = &names[i];

		if (!text_fits(it, rule->role) || !text_fits(it, rule->pattern) ||
		    rule->thread_class > HEDDLE_CLASS_TIME_CRITICAL || rule->priority > 99 ||
		    rule->group > HEDDLE_GROUP_BACKGROUND ||
		    rule->category > HEDDLE_CATEGORY_BACKGROUND)
			return false;
	}
	return true;
}

static bool plan_fits(const struct heddle_plan *it, size_t bytes)
{
	if (bytes < sizeof(*it) || it->magic != HEDDLE_PLAN_MAGIC || it->bytes != bytes)
		return false;
	if (it->stacks > HEDDLE_STACKS_FORCE || it->low > 100 || it->high > 100)
		return false;
	if (it->texts_offset < sizeof(*it) || it->texts_offset >= it->bytes)
		return false;
	/* The last text ends in the file. */
	if (((const char *)it)[it->bytes - 1] != 0 || !text_fits(it, it->preload) ||
	    !text_fits(it, it->user))
		return false;
	return area_fits(it, it->rules_offset, it->rules, sizeof(struct heddle_rule)) &&
	       area_fits(it, it->names_offset, it->names, sizeof(struct heddle_name_rule)) &&
	       rules_fit(it);
}

static bool read_all(int file, char *out, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = read(file, out + done, bytes - done);

		if (got == 0 || (got < 0 && errno != EINTR))
			return false;
		if (got > 0)
			done += (size_t)got;
	}
	return true;
}

enum copied { COPIED, COPIED_NOTHING, COPIED_NONSENSE };

static bool header_fits(const struct heddle_plan *header)
{
	return header->magic == HEDDLE_PLAN_MAGIC && header->bytes >= sizeof(*header) &&
	       header->bytes <= HEDDLE_PLAN_BYTES_MAX;
}

static enum copied copy_all(int file, char **copy, size_t *bytes)
{
	struct heddle_plan header;

	if (!read_all(file, (char *)&header, sizeof(header)) || !header_fits(&header))
		return COPIED_NONSENSE;
	*bytes = header.bytes;
	*copy = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*copy == MAP_FAILED)
		return COPIED_NOTHING;
	memcpy(*copy, &header, sizeof(header));
	if (read_all(file, *copy + sizeof(header), *bytes - sizeof(header)) &&
	    plan_fits((const void *)*copy, *bytes))
		return COPIED;
	munmap(*copy, *bytes);
	return COPIED_NONSENSE;
}

/* What `path` ends with, a number after a dot, which is cut off: 0 if it ends otherwise. */
static uint64_t take_number(const char *path, size_t *length)
{
	uint64_t number = 0, power = 1;
	size_t at = *length;

	while (at && path[at - 1] >= '0' && path[at - 1] <= '9' && power < UINT64_MAX / 100) {
		number += (uint64_t)(path[--at] - '0') * power;
		power *= 10;
	}
	if (!at || path[at - 1] != '.')
		return 0;
	*length = at - 1;
	return number;
}

/* Whether the run is over, so that its plan was removed: a daemon that it left behind, or one whose
 * `heddle run` was killed. The file is named after that process and the namespace of its number; in
 * another one, a container, nothing can be said. */
static bool run_is_over(const char *path)
{
	size_t length = strlen(path);
	const uint64_t process = take_number(path, &length);
	const uint64_t namespace = take_number(path, &length);
	char name[32] = "/proc/";
	struct statx about;

	if (!process || !namespace || !calls_allowed() ||
	    syscall(SYS_statx, AT_FDCWD, "/proc/self/ns/pid", 0, STATX_INO, &about) != 0 ||
	    about.stx_ino != namespace)
		return false;
	text_copy(name + 6, sizeof(name) - 7, digits(process));
	return syscall(SYS_statx, AT_FDCWD, name, 0, STATX_INO, &about) != 0 && errno == ENOENT;
}

/* A mapping would break under us if somebody cut the file: a copy cannot. Only calls that the
 * loader makes as well: where a filter is in place nothing else is sure to be allowed. */
void plan_read(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const bool is_gone = file < 0 && errno == ENOENT;
	enum copied copied = COPIED_NOTHING;
	char *copy = NULL;
	size_t bytes = 0;

	if (file >= 0) {
		copied = copy_all(file, &copy, &bytes);
		close(file);
	}
	if (is_gone && run_is_over(path))
		return;
	if (copied == COPIED_NOTHING)
		say("the plan ", path, " cannot be read: threads are only observed", NULL);
	else if (copied == COPIED_NONSENSE)
		say("the plan ", path, " makes no sense: threads are only observed", NULL);
	else
		store_release(&plan, (const void *)copy);
}

const struct heddle_rule *plan_rules(void)
{
	return (const void *)((const char *)plan + plan->rules_offset);
}

const struct heddle_name_rule *plan_names(void)
{
	return (const void *)((const char *)plan + plan->names_offset);
}

const char *plan_text(uint32_t offset)
{
	return (const char *)plan + plan->texts_offset + offset;
}

bool plan_flag(uint32_t flag)
{
	const struct heddle_plan *it = load_acquire(&plan);

	return it && (it->flags & flag);
}
