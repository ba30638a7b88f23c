/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What is told of a thread that crosses the tripwire, whoever made the thread. */
#ifndef FAULT_H
#define FAULT_H

#include <stdint.h>

#define FAULT_TRIPPED "entered the High zone of its stack, of "

/* Writes the frames from this instruction on; in a signal handler that was called there. */
void fault_backtrace(uintptr_t at);

#endif
