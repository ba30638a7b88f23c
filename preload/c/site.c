/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Where a kind of thread was created: the program's own line, not the C++ library's.
 *
 * std::thread and GLib call pthread_create() in their own code, which says nothing. Their caller
 * is found by the unwinder that such programs have loaded when they begin; once per kind, and
 * never loaded for this purpose.
 *
 * Invariants
 *   - Without an unwinder, or where it does not leave the library, the call's own place is the
 *     answer.
 *   - No search by dlsym() when threads are created: see real.c.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <unwind.h>

#define FRAMES_MAX 16

typedef _Unwind_Reason_Code (*unwinder)(_Unwind_Trace_Fn, void *);
typedef _Unwind_Ptr (*get_address)(struct _Unwind_Context *);

static unwinder unwind;
static get_address address_of;

struct walk {
	uintptr_t inner; /* the call of pthread_create */
	uintptr_t found;
	int frames;
	bool below;      /* past that call */
};

bool site_is_a_librarys(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	return strncmp(name, "libstdc++.so", 12) == 0 || strncmp(name, "libc++.so", 9) == 0 ||
	       strncmp(name, "libglib-2.0.so", 14) == 0 || strncmp(name, "libgthread", 10) == 0;
}

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *data)
{
	struct walk *walk = data;
	const uintptr_t address = address_of(context);
	struct place_name name;

	if (++walk->frames > FRAMES_MAX || !address)
		return _URC_END_OF_STACK;
	walk->below |= address == walk->inner;
	if (!walk->below || !module_find(address - 1, &name) || site_is_a_librarys(name.path))
		return _URC_NO_REASON;
	walk->found = address;
	return _URC_END_OF_STACK;
}

void sites_begin(void)
{
	unwind = (unwinder)dlsym(RTLD_DEFAULT, "_Unwind_Backtrace");
	address_of = (get_address)dlsym(RTLD_DEFAULT, "_Unwind_GetIP");
	if (!unwind || !address_of)
		(void)dlerror(); /* not for the program to read */
}

uintptr_t site_of_program(uintptr_t site)
{
	struct walk walk = {.inner = site, .found = site};

	if (unwind && address_of)
		(void)unwind(look, &walk);
	return walk.found;
}
