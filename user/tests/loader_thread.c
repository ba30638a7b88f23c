/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The first thread of a program is made by the constructor of a library that it loads, which waits
 * for it with the loader's lock held. Nothing that it takes to have threads needs that lock; nor
 * does what has a thread's call made elsewhere.
 */
#include "check.h"
#include <dlfcn.h>

static void *loads(void *arg)
{
	void *library = dlopen(PARTS "threads.so", RTLD_NOW);
	CHECK(library);
	CHECK_EQ(dlclose(library), 0);
	return arg;
}

int main(void)
{
	loads(NULL);
	join_thread(start_thread(loads, NULL));
	return 0;
}
