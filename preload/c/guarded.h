/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Whether a filter on system calls is the program's own, see guarded.c.
 */
#ifndef HEDDLE_GUARDED_H
#define HEDDLE_GUARDED_H

#include <stdbool.h>
#include <stdint.h>

void guarded_begin(void);
void guarded_decide(bool is_in_run);
/* The filters of a thread by its status, as /proc has it. */
uint32_t guarded_count(const char *status);

#endif
