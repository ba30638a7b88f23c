/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Signals to the process from another one.
 */
#ifndef SEND_H
#define SEND_H

#include "check.h"
#include <signal.h>
#include <sys/wait.h>

/* Returns who has sent it, which has ended. */
static inline pid_t send_from_child(int number)
{
	pid_t process = getpid(), child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(kill(process, number) != 0);
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	return child;
}

#endif
