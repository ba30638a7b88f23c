/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The program's actions behind ours, for SIGSEGV and SIGBUS; see signals.c.
 */
#ifndef HEDDLE_SIGNALS_H
#define HEDDLE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

typedef void (*signal_handler)(int number, siginfo_t *info, void *context);

/* Puts ours in the place of the program's. */
void signals_take(int number, signal_handler ours);
/* Whether handlers of the program may run on a signal stack that it did not set. */
bool signals_others_on_stack(void);
/* Whether the program has no handler of its own. */
bool signals_is_plain(int number);
/* Puts the program's back: the fault happens again, and is the program's then. */
void signals_step_aside(int number, siginfo_t *info);
/* Calls the program's handler here and now. */
void signals_pass_on(int number, siginfo_t *info, void *context);

#endif
