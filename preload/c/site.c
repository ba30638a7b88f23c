/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Where a kind of thread was created: the program's own line, not the C++ library's.
 *
 * std::thread and GLib call pthread_create() in their own code, which says nothing. Their caller
 * is found by the unwinder that such programs have loaded; once per kind, and never loaded for
 * this purpose.
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

struct unwinder {
	_Unwind_Reason_Code (*walk)(_Unwind_Trace_Fn, void *);
	_Unwind_Ptr (*address_of)(struct _Unwind_Context *);
};

/* What the program begins with, where it has one. */
static struct unwinder first;

struct walk {
	const struct unwinder *unwinder;
	uintptr_t inner; /* the call of pthread_create */
	uintptr_t found;
	int frames;
	bool below;      /* past that call */
};

static bool starts(const char *path, const char *start)
{
	const char *slash = strrchr(path, '/');

	return strncmp(slash ? slash + 1 : path, start, strlen(start)) == 0;
}

static bool is_of_cxx(const char *path)
{
	return starts(path, "libstdc++.so") || starts(path, "libc++.so");
}

bool site_is_a_librarys(const char *path)
{
	return is_of_cxx(path) || starts(path, "libglib-2.0.so") || starts(path, "libgthread");
}

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *data)
{
	struct walk *walk = data;
	const uintptr_t address = walk->unwinder->address_of(context);
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
	first.walk = (__typeof__(first.walk))dlsym(RTLD_DEFAULT, "_Unwind_Backtrace");
	first.address_of = (__typeof__(first.address_of))dlsym(RTLD_DEFAULT, "_Unwind_GetIP");
	if (!first.walk || !first.address_of)
		(void)dlerror(); /* not for the program to read */
}

static bool find_in(const char *library, struct unwinder *found)
{
	found->walk = (__typeof__(found->walk))symbol_find(library, "_Unwind_Backtrace");
	found->address_of = (__typeof__(found->address_of))symbol_find(library, "_Unwind_GetIP");
	return found->walk && found->address_of;
}

/* A C++ plugin brings an unwinder with it, and takes it along when it goes: so it is searched each
 * time. While the C++ library calls us it is there. */
static bool find_unwinder(const char *library, struct unwinder *found)
{
	*found = first;
	if (found->walk && found->address_of)
		return true;
	return is_of_cxx(library) &&
	       (find_in("libgcc_s.so", found) || find_in("libunwind.so", found));
}

uintptr_t site_of_program(uintptr_t site, const char *library)
{
	struct unwinder unwinder;
	struct walk walk = {.unwinder = &unwinder, .inner = site, .found = site};

	if (find_unwinder(library, &unwinder))
		(void)unwinder.walk(look, &walk);
	return walk.found;
}
