/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What a program asks of the kernel where no library sees it.
 */
#ifndef UNSEEN_H
#define UNSEEN_H

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A system call, with the kernel's result. */
static inline long ask_unseen(long number, long a, long b, long c)
{
#ifdef __x86_64__
	long got;
	__asm__ volatile("syscall"
			 : "=a"(got)
			 : "0"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return got;
#else
	return syscall(number, a, b, c);
#endif
}

static inline long read_unseen(int fd, void *place, unsigned long bytes)
{
	return ask_unseen(SYS_read, fd, (long)place, (long)bytes);
}

static inline long kill_unseen(pid_t process, int number)
{
	return ask_unseen(SYS_kill, process, number, 0);
}

static inline int value_of(const int *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

#endif
