/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Nothing else of the process wakes again and again beside threads that wake now and then.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/resource.h>

/* Time between two wakes, and how many there are; and how often the process may sleep for each: it
 * looks for a while whether there is more to do, every 2 ms. */
enum { NAP_MS = 200, NAPS = 8, SLEEPS = 40 };

static long sleeps(void)
{
	struct rusage used;
	CHECK_EQ(getrusage(RUSAGE_SELF, &used), 0);
	return used.ru_nvcsw;
}

static void *naps(void *arg)
{
	long before = sleeps();
	for (int nap = 0; nap < NAPS; nap++)
		sleep_ms(NAP_MS);
	CHECK(sleeps() - before < NAPS * SLEEPS);
	return arg;
}

int main(void)
{
	join_thread(start_thread(naps, NULL));
	return 0;
}
