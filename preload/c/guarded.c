/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * System calls of the program that we must know of: a name for the thread, and a seccomp filter.
 *
 * Once a program has asked for a filter, none of the calls is made any more that it would hardly
 * make itself (PAGEMAP_SCAN, process_vm_readv): the filter might kill it for them. Stacks are
 * then no longer measured, and the table says so by not being marked as ended.
 *
 * Invariant: the real call is made with the same arguments, and nothing after it changes errno.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static COLD void note_filter(void)
{
	/* The table while it can still be made; in a run, where somebody wants it. */
	if (calls_allowed() && plan)
		(void)process_begin();
	if (calls_allowed() && process_has_table())
		say("the program filters its system calls: stacks are not measured any more", NULL);
	calls_forbid();
}

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
	if (option == PR_SET_SECCOMP)
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

static void *real_syscall;

static COLD syscall_function look_at_syscall(long number, long operation)
{
	if (number == SYS_seccomp && operation != SECCOMP_GET_ACTION_AVAIL)
		note_filter();
	return (syscall_function)real_function(&real_syscall, "syscall");
}

EXPORT long syscall_seen(long number, long a, long b, long c, long d, long e, long f)
	__asm__("syscall");

long syscall_seen(long number, long a, long b, long c, long d, long e, long f)
{
	syscall_function real = (syscall_function)load(&real_syscall);

	if (__builtin_expect(number == SYS_seccomp || !real, 0))
		real = look_at_syscall(number, a);
	return real(number, a, b, c, d, e, f);
}

/* Before a program can be where dlsym() may not be called. */
void guarded_begin(void) { (void)look_at_syscall(0, 0); }

EXPORT int dlclose(void *library)
{
	const int result = REAL(dlclose)(library);
	int error = errno;

	if (process_has_table())
		kinds_forget_addresses();
	errno = error;
	return result;
}
