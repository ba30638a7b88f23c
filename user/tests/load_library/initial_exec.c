/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A library with thread-local storage that is there as soon as the library is, in every thread.
 */
#define STATIC __attribute__((tls_model("initial-exec")))

static __thread int number STATIC = 7;
static __thread char many[64] STATIC;

int *number_of_thread(void) { return &number; }
char *many_of_thread(void) { return many; }
