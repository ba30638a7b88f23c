/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Which signals are pending, of the calling thread's or the process's.
 */
#ifndef PENDING_H
#define PENDING_H

#include "check.h"
#include <signal.h>

static inline int is_pending(int number)
{
	sigset_t set;
	CHECK_EQ(sigpending(&set), 0);
	return sigismember(&set, number);
}

/* Until it is: a thread may be about to say that it has it. */
static inline void await_pending(int number)
{
	long end = now_ms() + 20000;
	while (!is_pending(number)) {
		CHECK(now_ms() < end);
		sleep_ms(1);
	}
}

#endif
