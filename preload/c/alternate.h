/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * alternate.c: the signal stacks that threads are given.
 */
#ifndef HEDDLE_ALTERNATE_H
#define HEDDLE_ALTERNATE_H

#include <stddef.h>

struct thread;

void signal_stacks_begin(void);
size_t signal_stack_bytes(void);
/* The slot's own, or null where the thread's has to lie on the thread's stack. */
void *signal_stack_apart(struct thread *thread);
/* In a forked child, before the slots of its parent go. */
void signal_stacks_forget(struct thread *step);

#endif
