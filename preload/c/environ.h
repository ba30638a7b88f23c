/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The environment for programs that this one starts; see environ.c.
 *
 * Memory is the caller's: on its stack, as between vfork() and exec nothing else is safe.
 */
#ifndef HEDDLE_ENVIRON_H
#define HEDDLE_ENVIRON_H

#include <stdbool.h>
#include <stddef.h>

/* Whether programs that this one starts are to be told of us. */
bool environment_follows(void);
/* The value of a variable, whose name has the '=' with it; null: it is not there. */
const char *environment_value(char *const *from, const char *name);
/* Bytes that environment_fill needs. */
size_t environment_room(char *const *from, bool is_user);
/* A copy of `from`, with our variables; `is_user`: and with what makes threads user-level ones. It
 * points into `from` and `memory`. */
char **environment_fill(char *const *from, void *memory, size_t room, bool is_user);
/* The plan's path. */
const char *environment_plan(void);
/* Whether `heddle run` is asked about programs that this one starts. */
bool programs_are_judged(void);
/* The same for a shell's command. */
size_t environment_command_room(const char *command);
void environment_command(char *out, const char *command);

/* On the stack up to this size, beyond it in a mapping. */
#define ENVIRONMENT_STACK_MAX ((size_t)4 << 10)

void *environment_map(size_t room);
void environment_unmap(void *memory, size_t room);

#define ENVIRONMENT_MEMORY(room)                                                                   \
	((room) <= ENVIRONMENT_STACK_MAX ? __builtin_alloca(room) : environment_map(room))

#endif
