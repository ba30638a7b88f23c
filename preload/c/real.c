/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The functions that the library stands in front of, found when they are first needed.
 *
 * Invariant: the next definition behind ours is called, so that other preloaded libraries keep
 * working whichever side of us they are on.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>

void *real_function(void **cache, const char *name)
{
	void *found = load(cache);

	if (!found) {
		int error = errno;

		found = dlsym(RTLD_NEXT, name);
		store(cache, found);
		errno = error;
	}
	return found;
}
