/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The functions that the library stands in front of.
 *
 * Invariants
 *   - The next definition behind ours is called, so that other preloaded libraries keep working
 *     whichever side of us they are on.
 *   - All are found when the library begins. dlsym() takes the loader's lock, which a dlopen()
 *     holds while it runs a constructor: one that waits for its own thread would wait for ever if
 *     that thread then had to search. Nor may a signal handler search.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>

/* The linker's names for the section that REAL() fills. */
extern struct real __start_reals[] __attribute__((visibility("hidden")));
extern struct real __stop_reals[] __attribute__((visibility("hidden")));

static void *search(struct real *real)
{
	void *found = dlsym(RTLD_NEXT, real->name);

	/* Where libc has no such function the error is not for the program to read. */
	if (!found)
		(void)dlerror();
	store(&real->found, found);
	return found;
}

void reals_begin(void)
{
	for (struct real *real = __start_reals; real < __stop_reals; real++)
		(void)search(real);
}

/* A call that comes before the library could begin searches for itself. */
void *real_function(struct real *real)
{
	void *found = load(&real->found);

	if (!found) {
		int error = errno;

		found = search(real);
		errno = error;
	}
	return found;
}
