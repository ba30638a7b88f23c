/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * processors.h - single ones of those that the process may use.
 */
#ifndef PROCESSORS_H
#define PROCESSORS_H

#include "check.h"
#include <sched.h>

/* Leaves only the first processor of the process in `set`. */
static inline void first_of(cpu_set_t *set)
{
	int first = 0;
	CHECK_EQ(sched_getaffinity(getpid(), sizeof(*set), set), 0);
	while (!CPU_ISSET(first, set))
		first++;
	CPU_ZERO(set);
	CPU_SET(first, set);
}

#endif
