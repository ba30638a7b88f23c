/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Nothing else of the process wakes again and again beside threads that wake now and then.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/resource.h>

/* How often the process may sleep for each wake: it looks for a moment whether there is more to do,
 * every 2 ms, and some four times a second whether there is something to give back. */
enum { SLEEPS = 10 };

static const struct {
	int nap_ms, naps;
} TIMES[] = { { 200, 8 }, { 40, 40 } };

static long sleeps(void)
{
	struct rusage used;
	CHECK_EQ(getrusage(RUSAGE_SELF, &used), 0);
	return used.ru_nvcsw;
}

static void *naps(void *arg)
{
	for (unsigned i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
		long before = sleeps();
		for (int nap = 0; nap < TIMES[i].naps; nap++)
			sleep_ms(TIMES[i].nap_ms);
		long each = (sleeps() - before) / TIMES[i].naps;
		CHECK(each < SLEEPS);
	}
	return arg;
}

int main(void)
{
	join_thread(start_thread(naps, NULL));
	return 0;
}
