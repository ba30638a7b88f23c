/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A library that wraps functions of the C library, as those that redirect connections or files do:
 * counts the calls, and passes them on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int count;

int wraps_count(void);
int wraps_count(void)
{
	return __atomic_exchange_n(&count, 0, __ATOMIC_SEQ_CST);
}

#define NEXT(name)                                                  \
	static __typeof__(name) *next;                              \
	if (!next)                                                  \
		next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name); \
	__atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST)

int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	NEXT(connect);
	return next(fd, address, bytes);
}

int accept(int fd, struct sockaddr *address, socklen_t *bytes)
{
	NEXT(accept);
	return next(fd, address, bytes);
}

ssize_t read(int fd, void *place, size_t bytes)
{
	NEXT(read);
	return next(fd, place, bytes);
}

ssize_t write(int fd, const void *place, size_t bytes)
{
	NEXT(write);
	return next(fd, place, bytes);
}

int poll(struct pollfd *entries, nfds_t entry_count, int ms)
{
	NEXT(poll);
	return next(entries, entry_count, ms);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	NEXT(nanosleep);
	return next(time, left);
}

/* By its version, as functions are found of which there are several. */
int sem_wait(sem_t *semaphore)
{
	static __typeof__(sem_wait) *next;
	if (!next)
		next = (__typeof__(sem_wait) *)dlvsym(RTLD_NEXT, "sem_wait", "GLIBC_2.34");
	if (!next)
		next = (__typeof__(sem_wait) *)dlvsym(RTLD_NEXT, "sem_wait", "GLIBC_2.2.5");
	__atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
	return next(semaphore);
}
