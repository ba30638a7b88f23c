/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A library's constructor makes a thread and waits for it with the loader's lock held. The thread
 * makes a timer that sends its signal to that thread, the program's first such one.
 */
#include "check.h"
#include <dlfcn.h>

static void *loads(void *arg)
{
	void *library = dlopen(PARTS "timer.so", RTLD_NOW);
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
