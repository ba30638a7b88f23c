/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The environment: the program's own again, and ours for the programs that it starts.
 *
 * `heddle run` needs two variables to get the library into a program: LD_PRELOAD and HEDDLE_PLAN.
 * The program shall see neither, so they are taken out of `environ` at the begin; what else stood
 * in LD_PRELOAD stays there. Every function that starts a program (exec.c, shell.c) gets a copy
 * of its environment with the two put back, so that children are followed wherever they go.
 *
 * Invariants
 *   - The array that the program gave is never written to.
 *   - Without HEDDLE_PLAN somebody else loaded us: then nothing is hidden and nothing put back.
 *   - A child that could not read the library, as after setuid() or chroot(), is not told of it:
 *     its loader would complain on the program's standard error. Nor is one under a filter on
 *     system calls, where asking may be forbidden.
 */
#define _GNU_SOURCE
#include "environ.h"
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY_NAME "libheddle-preload.so"
#define VALUE_MAX 4096

static const char preload_name[] = "LD_PRELOAD=";
static const char plan_name[] = "HEDDLE_PLAN=";
static const char workers_name[] = "HEDDLE_RUN_WORKERS=";
/* Of a 32-bit number. */
#define DIGITS_MAX 10
/* A longer command might be too long for the kernel with its quotes. */
#define JUDGED_COMMAND_MAX 16384

/* Our part of LD_PRELOAD, as it was written: with $LIB for the loader to replace. */
static char own_part[VALUE_MAX];
static char plan_entry[VALUE_MAX];
/* "LD_PRELOAD=" and what others had there. */
static char rest_entry[VALUE_MAX];
static const char *own_path;
static bool hidden;

static bool is_entry(const char *entry, const char *name)
{
	return strncmp(entry, name, strlen(name)) == 0;
}

static bool is_own(const char *part, size_t length)
{
	const char *slash = memrchr(part, '/', length);
	const char *name = slash ? slash + 1 : part;

	return length - (size_t)(name - part) == strlen(LIBRARY_NAME) &&
	       memcmp(name, LIBRARY_NAME, strlen(LIBRARY_NAME)) == 0;
}

/* Splits a value of LD_PRELOAD, as the loader does, into ours and the rest. */
static bool split(const char *value)
{
	char *rest = rest_entry + text_copy(rest_entry, VALUE_MAX, preload_name);

	if (strlen(value) >= VALUE_MAX - sizeof(preload_name))
		return false;
	for (const char *at = value; *at;) {
		const size_t length = strcspn(at, ": ");

		if (is_own(at, length)) {
			memcpy(own_part, at, length);
			own_part[length] = 0;
		} else if (length) {
			if (rest[-1] != '=')
				*rest++ = ':';
			memcpy(rest, at, length);
			rest += length;
		}
		at += length + (at[length] != 0);
	}
	*rest = 0;
	return own_part[0] != 0;
}

static bool keep_plan(const char *entry)
{
	if (strlen(entry) >= VALUE_MAX)
		return false;
	strcpy(plan_entry, entry);
	return true;
}

static bool rest_is_empty(void) { return rest_entry[sizeof(preload_name) - 1] == 0; }

/* Was LD_PRELOAD set, if to nothing? */
static bool was_set(void)
{
	return plan && (plan->flags_program & HEDDLE_PROGRAM_HAD_PRELOAD);
}

/* Closes the gaps in the array itself: it is the one that the kernel made. */
static void hide(void)
{
	char **to = environ;

	for (char **from = environ; *from; from++) {
		if (is_entry(*from, plan_name))
			continue;
		if (!is_entry(*from, preload_name))
			*to++ = *from;
		else if (!rest_is_empty() || was_set())
			*to++ = rest_entry;
	}
	*to = NULL;
	hidden = true;
}

bool environment_begin(void)
{
	const char *path = NULL, *preload = NULL;
	Dl_info info;

	for (char **entry = environ; entry && *entry; entry++) {
		if (is_entry(*entry, plan_name) && keep_plan(*entry))
			path = plan_entry + strlen(plan_name);
		if (is_entry(*entry, preload_name))
			preload = *entry + strlen(preload_name);
	}
	if (path && path[0])
		plan_read(path);
	/* Its memory checker would call every look below the stack pointer an error. */
	if (preload && strstr(preload, "vgpreload")) {
		/* It is a static program, to which only this library is passed on. */
		const bool are_kernels =
			programs_are_judged() && !strstr(preload, plan_text(plan->user));

		say("under valgrind ", are_kernels ? "threads are kernel threads, and " : "",
		    "stacks are not measured", NULL);
		measuring_forbid();
	}
	if (!path || !path[0])
		return false;
	if (dladdr(preload_name, &info))
		own_path = info.dli_fname;
	if (preload && split(preload))
		hide();
	return true;
}

static bool may_read(const char *path)
{
	return !path || faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0;
}

bool environment_follows(void)
{
	int error = errno;
	bool follows = hidden && !calls_filtered() && may_read(own_path) &&
		       may_read(plan_entry + strlen(plan_name));

	errno = error;
	return follows;
}

const char *environment_plan(void) { return plan_entry + strlen(plan_name); }

const char *environment_value(char *const *from, const char *name)
{
	const char *value = NULL;

	for (; from && *from; from++) {
		if (is_entry(*from, name))
			value = *from + strlen(name);
	}
	return value;
}

bool programs_are_judged(void) { return plan && plan_text(plan->user)[0]; }

size_t environment_room(char *const *from, bool is_user)
{
	const char *preload = environment_value(from, preload_name);
	size_t entries = 0, texts = sizeof(preload_name) + strlen(own_part) + 2;

	while (from && from[entries])
		entries++;
	if (preload)
		texts += strlen(preload);
	if (is_user)
		texts += strlen(plan_text(plan->user)) + 1 + sizeof(workers_name) + DIGITS_MAX;
	return (entries + 4) * sizeof(char *) + texts;
}

/* What the library that makes user-level threads is told, and takes out of its environment. */
static char *fill_workers(char *out, size_t room)
{
	char *end = out + text_copy(out, room, workers_name);

	end += text_copy(end, DIGITS_MAX, digits(plan->workers));
	*end = 0;
	return end + 1;
}

char **environment_fill(char *const *from, void *memory, size_t room, bool is_user)
{
	char **entries = memory, *text;
	const char *theirs = environment_value(from, preload_name);
	size_t count = 0;

	for (; from && *from; from++) {
		if (!is_entry(*from, preload_name) && !is_entry(*from, plan_name))
			entries[count++] = *from;
	}
	text = (char *)&entries[count + 4];
	room -= (size_t)(text - (char *)memory);
	if (is_user && plan->workers) {
		entries[count++] = text;
		text = fill_workers(text, room);
	}
	entries[count++] = text;
	entries[count++] = plan_entry;
	entries[count] = NULL;
	text += text_copy(text, room, preload_name);
	/* What wraps the C library's functions has to wrap those of user-level threads. */
	if (is_user) {
		if (theirs && theirs[0])
			text = stpcpy(stpcpy(text, theirs), ":");
		text = stpcpy(stpcpy(text, plan_text(plan->user)), ":");
	}
	text += text_copy(text, room, own_part);
	if (!is_user && theirs && theirs[0]) {
		*text++ = ':';
		text += strlen(strcpy(text, theirs));
	}
	*text = 0;
	return entries;
}

static char *quote(char *out, const char *text)
{
	*out++ = '\'';
	for (; *text; text++) {
		if (*text == '\'')
			out = stpcpy(out, "'\\''");
		else
			*out++ = *text;
	}
	*out++ = '\'';
	return out;
}

/* A quote becomes four bytes. */
size_t environment_command_room(const char *command)
{
	return 4 * (strlen(command) + strlen(own_part) + strlen(plan_entry)) + 256;
}

/* The shell itself need not be followed, what it starts has to be. Where that is judged the shell
 * becomes another one, which asks. */
void environment_command(char *out, const char *command)
{
	out = stpcpy(out, "LD_PRELOAD=");
	out = quote(out, own_part);
	out = stpcpy(out, "${LD_PRELOAD:+:$LD_PRELOAD} HEDDLE_PLAN=");
	out = quote(out, plan_entry + strlen(plan_name));
	out = stpcpy(out, "; export LD_PRELOAD HEDDLE_PLAN; ");
	if (programs_are_judged() && strlen(command) <= JUDGED_COMMAND_MAX)
		strcpy(quote(stpcpy(out, "exec /bin/sh -c -- "), command), " sh");
	else
		strcpy(out, command);
}
