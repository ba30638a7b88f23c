/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Waiting in the kernel where no library sees it.
 */
#ifndef UNSEEN_H
#define UNSEEN_H

#include <sys/syscall.h>
#include <unistd.h>

/* As read, without errno. */
static inline long read_unseen(int fd, void *place, unsigned long bytes)
{
#ifdef __x86_64__
	long got;
	__asm__ volatile("syscall"
			 : "=a"(got)
			 : "0"((long)SYS_read), "D"((long)fd), "S"(place), "d"(bytes)
			 : "rcx", "r11", "memory");
	return got;
#else
	return read(fd, place, bytes);
#endif
}

static inline int value_of(const int *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

#endif
