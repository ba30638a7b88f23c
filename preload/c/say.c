/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Messages of the library: whole lines on standard error, in one write each.
 *
 * Invariant: usable at any moment, in a signal handler too: no stdio, no allocation. Not more
 * than a few dozen lines per process, and none where the plan asks for silence.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_BYTES 768
#define LINES_MAX 64

size_t text_copy(char *out, size_t room, const char *text)
{
	size_t length = strnlen(text, room);

	memcpy(out, text, length);
	return length;
}

size_t text_hex(char *out, size_t room, uint64_t value)
{
	char buffer[16];
	size_t start = sizeof(buffer), length;

	do {
		buffer[--start] = "0123456789abcdef"[value & 15];
		value >>= 4;
	} while (value);
	length = min_u64(sizeof(buffer) - start, room);
	memcpy(out, buffer + start, length);
	return length;
}

const char *digits(uint64_t value)
{
	static THREAD_LOCAL char buffers[4][24];
	static THREAD_LOCAL unsigned int next;
	char *buffer = buffers[next++ % 4];
	size_t start = 23;

	buffer[start] = 0;
	do {
		buffer[--start] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	return buffer + start;
}

static struct statx stderr_at_begin;

static bool look_at_stderr(struct statx *about)
{
	return syscall(SYS_statx, STDERR_FILENO, "", AT_EMPTY_PATH, STATX_INO, about) == 0;
}

void say_begin(void)
{
	(void)look_at_stderr(&stderr_at_begin);
}

static bool is_same_file(const struct statx *one, const struct statx *other)
{
	return one->stx_ino == other->stx_ino && one->stx_dev_major == other->stx_dev_major &&
	       one->stx_dev_minor == other->stx_dev_minor;
}

/* A daemon closes its standard error, and its next file may get the number: nothing of ours
 * belongs there. To write past RLIMIT_FSIZE raises SIGXFSZ: no message into a file then. And the
 * calls that it takes to know all this may be forbidden. */
static bool may_write(void)
{
	struct rlimit limit;
	struct statx now;

	if (!calls_allowed() || !look_at_stderr(&now) || !is_same_file(&now, &stderr_at_begin))
		return false;
	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
	       lseek(STDERR_FILENO, 0, SEEK_CUR) < 0;
}

void say(const char *first, ...)
{
	char line[LINE_BYTES];
	size_t used = text_copy(line, LINE_BYTES - 1, "heddle: ");
	struct control *here = load_acquire(&control);
	int error = errno;
	va_list pieces;

	if (plan_flag(HEDDLE_PLAN_QUIET) || !may_write())
		return;
	if (here && __atomic_fetch_add(&here->said, 1, __ATOMIC_RELAXED) >= LINES_MAX)
		return;
	va_start(pieces, first);
	for (const char *piece = first; piece; piece = va_arg(pieces, const char *))
		used += text_copy(line + used, LINE_BYTES - 1 - used, piece);
	va_end(pieces);
	line[used++] = '\n';
	/* Nobody to tell if even this fails. */
	ssize_t written = write(STDERR_FILENO, line, used);
	(void)written;
	errno = error;
}
