/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * System calls of the program that we must know of: a name for the thread, and a seccomp filter.
 *
 * Once a program has asked for a filter, none of the calls is made any more that it would hardly
 * make itself (PAGEMAP_SCAN, process_vm_readv): the filter might kill it for them. Stacks are
 * then no longer measured, and the table says so by not being marked as ended.
 *
 * A filter may also have come before the program: a sandbox sets it up and then starts what it
 * guards. Then nothing is done here at all, unless `heddle run` is under as many filters itself,
 * as in a container, and so knows that they do not mind.
 *
 * Invariants
 *   - The real call is made with the same arguments, and nothing after it changes errno.
 *   - Until it is known whose a filter is, only calls are made that the loader just made.
 */
#define _GNU_SOURCE
#include "guarded.h"
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- filters that were there before */

/* Of /proc/self/status, whose line is near its end. */
#define STATUS_BYTES 4096

static uint32_t filters;

static size_t read_status(char *out, size_t room)
{
	int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t got = 1;
	size_t used = 0;

	while (file >= 0 && got > 0 && used < room) {
		got = read(file, out + used, room - used);
		used += got > 0 ? (size_t)got : 0;
	}
	if (file >= 0)
		close(file);
	return used;
}

uint32_t guarded_count(const char *status)
{
	static const char line[] = "\nSeccomp_filters:\t";
	const char *at = strstr(status, line);
	uint32_t count = 0;

	for (at = at ? at + strlen(line) : ""; *at >= '0' && *at <= '9'; at++)
		count = count * 10 + (uint32_t)(*at - '0');
	return count;
}

static uint32_t count_filters(void)
{
	char text[STATUS_BYTES + 1];

	text[read_status(text, STATUS_BYTES)] = 0;
	return guarded_count(text);
}

void guarded_begin(void)
{
	filters = count_filters();
	if (filters)
		calls_doubt(true);
}

/* The plan is there, if there is one. Without a run nobody knows more than we do. */
void guarded_decide(bool is_in_run)
{
	const struct heddle_plan *it = load_acquire(&plan);

	if (filters && (!is_in_run || (it && it->filters >= filters)))
		calls_doubt(false);
}

/* ---- filters that the program sets */

/* Noted before the call: the filter may mind what comes after it. Not one that cannot succeed: by
 * those a program asks what the kernel has (qemu and libseccomp do). */
static bool may_confine(uint32_t operation, uint32_t flags, bool has_filter)
{
	switch (operation) {
	case SECCOMP_SET_MODE_STRICT:
		return !flags && !has_filter;
	case SECCOMP_SET_MODE_FILTER:
		return has_filter;
	case SECCOMP_GET_ACTION_AVAIL:
	case SECCOMP_GET_NOTIF_SIZES:
		return false;
	default:
		return true;
	}
}

static COLD void note_filter(void)
{
	/* The table while it can still be made; in a run, where somebody wants it. */
	if (!calls_filtered() && plan)
		(void)process_begin();
	if (calls_allowed() && process_has_table())
		say("the program filters its system calls: stacks are not measured any more", NULL);
	calls_forbid();
}

/* ---- names */

static void note_name(const char *name)
{
	struct thread *thread = current_thread;

	if (thread && process_has_table())
		attributes_of_name(thread, name);
}

EXPORT int prctl(int option, ...)
{
	unsigned long values[4];
	va_list list;
	int result;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		values[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_SECCOMP && (values[0] != SECCOMP_MODE_FILTER || values[1]))
		note_filter();
	result = REAL(prctl)(option, values[0], values[1], values[2], values[3]);
	if (option == PR_SET_NAME && result == 0) {
		/* The kernel keeps 15 bytes of what is there. */
		char name[16] = {0};

		text_copy(name, sizeof(name) - 1, (const char *)values[0]);
		note_name(name);
	}
	return result;
}

/* As fixed arguments: then the call is a jump, and nothing of ours is on the stack while the
 * kernel works, whatever the call does to it. */
typedef long (*syscall_function)(long, long, long, long, long, long, long);

static syscall_function real_syscall;

EXPORT long syscall_seen(long number, long a, long b, long c, long d, long e, long f)
	__asm__("syscall");

static COLD syscall_function look_at_syscall(long number, long a, long b, long c)
{
	if (number == SYS_seccomp && may_confine((uint32_t)a, (uint32_t)b, c != 0))
		note_filter();
	store(&real_syscall, (syscall_function)REAL(syscall));
	return real_syscall;
}

long syscall_seen(long number, long a, long b, long c, long d, long e, long f)
{
	syscall_function real = load(&real_syscall);

	if (__builtin_expect(number == SYS_seccomp || !real, 0))
		real = look_at_syscall(number, a, b, c);
	return real(number, a, b, c, d, e, f);
}

EXPORT int dlclose(void *library)
{
	const int result = REAL(dlclose)(library);
	int error = errno;

	if (process_has_table())
		kinds_forget_addresses();
	errno = error;
	return result;
}
