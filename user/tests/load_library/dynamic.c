/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A library with thread-local storage that each thread gets when it first uses it.
 */
static __thread int number = 7;
static __thread char many[20000];

int *number_of_thread(void) { return &number; }
char *many_of_thread(void) { return many; }
