/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The program finds the environment that its caller has, and what it starts is loaded with nothing.
 */
#include "check.h"

static void *start(void *arg)
{
	CHECK(getenv("LD_PRELOAD") == NULL);
	CHECK(getenv("HEDDLE_RUN_WORKERS") == NULL);
	CHECK_EQ(system("! grep -q libheddle-user /proc/self/maps"), 0);
	return arg;
}

int main(void)
{
	CHECK(getenv("LD_PRELOAD") == NULL);
	CHECK(getenv("HOME") == NULL || getenv("HOME")[0] == '/');
	CHECK_EQ(system("! grep -q libheddle-user /proc/self/maps"), 0);
	join_thread(start_thread(start, NULL));
	return 0;
}
