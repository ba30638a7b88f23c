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
/* Bytes that environment_fill needs. */
size_t environment_room(char *const *from);
/* A copy of `from`, with our variables. It points into `from` and `memory`. */
char **environment_fill(char *const *from, void *memory, size_t room);
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
