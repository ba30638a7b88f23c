/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Names by which rustc's code tells the sanitizer of copies, and that older runtimes of C compilers
 * do not have. They have their own of the C library's functions.
 */
#include <string.h>

void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
	return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
	return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, size_t bytes)
{
	return memset(to, value, bytes);
}
