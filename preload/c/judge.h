/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Whether a program that is about to start gets user-level threads, see judge.c.
 */
#ifndef HEDDLE_JUDGE_H
#define HEDDLE_JUDGE_H

#include <stdbool.h>

/* By its path, which is seen from `folder` as execveat() has it; an empty one: that descriptor. */
bool judge_path(int folder, const char *path, char *const *environment);
/* By its name, which is searched as execvp() does. */
bool judge_name(const char *file, char *const *environment);
/* As one of these, `is_searched`: the second. `moves`: the child may go elsewhere before. */
bool judge_spawned(const char *name, bool is_searched, bool moves, char *const *environment);

#endif
