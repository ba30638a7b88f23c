/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Nothing else of the process wakes again and again beside threads that wake now and then.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/resource.h>

/* How often the process may sleep for each wake, in the best of some tries: once, and some four
 * times a second to look whether there is something to give back. */
enum { TRIES = 5 };

static const struct {
	int nap_ms, naps, sleeps;
} TIMES[] = { { 200, 8, 4 }, { 40, 40, 2 } };

static long sleeps(void)
{
	struct rusage used;
	CHECK_EQ(getrusage(RUSAGE_SELF, &used), 0);
	return used.ru_nvcsw;
}

static long sleeps_for_each(int nap_ms, int naps)
{
	long before = sleeps();

	for (int nap = 0; nap < naps; nap++)
		sleep_ms(nap_ms);
	return (sleeps() - before) / naps;
}

static void *naps(void *arg)
{
	for (unsigned i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
		int tries = 0;

		while (sleeps_for_each(TIMES[i].nap_ms, TIMES[i].naps) > TIMES[i].sleeps)
			CHECK(++tries < TRIES);
	}
	return arg;
}

int main(void)
{
	join_thread(start_thread(naps, NULL));
	return 0;
}
