/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads with rings of io_uring of their own, made by number: for a single issuer, with deferred
 * work, and used by a registered descriptor, where the kernel registers any.
 */
#define _GNU_SOURCE
#include "check.h"

#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#ifndef IORING_SETUP_TASKRUN_FLAG
#define IORING_SETUP_TASKRUN_FLAG (1U << 9)
#endif
#ifndef IORING_REGISTER_RING_FDS
#define IORING_REGISTER_RING_FDS 20
#endif
#ifndef IORING_ENTER_REGISTERED_RING
#define IORING_ENTER_REGISTERED_RING (1U << 4)
#endif

enum { THREADS = 8, ENTRIES = 8, TURNS = 100, WORK = 300000 };

static const unsigned kinds[] = {
	0,
	IORING_SETUP_SINGLE_ISSUER,
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* What does not go together, and what is only for one that has a registered descriptor. */
static const unsigned odd[] = {
	IORING_SETUP_DEFER_TASKRUN,
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_TASKRUN_FLAG,
	IORING_SETUP_SQPOLL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
	1U << 31,
};
enum { ODD = sizeof odd / sizeof *odd };

/* Whether the kernel has such, and what it makes of those. */
static int exist[KINDS], errors[ODD];
static int ends;

/* A registered number of the ring, or -1: the kernel need not have such. */
static int registered(int fd)
{
	struct io_uring_rsrc_update update = { .offset = -1U, .data = fd };

	if (syscall(SYS_io_uring_register, fd, IORING_REGISTER_RING_FDS, &update, 1) == 1)
		return update.offset;
	CHECK_EQ(errno, EINVAL);
	return -1;
}

/* The error's number, or 0. */
static int error_of(unsigned flags)
{
	struct io_uring_params params = { .flags = flags };
	int fd = syscall(SYS_io_uring_setup, ENTRIES, &params);

	if (fd < 0)
		return errno;
	CHECK_EQ(close(fd), 0);
	return 0;
}

static void *has_ring(void *kind)
{
	const unsigned flags = kinds[(intptr_t)kind % KINDS];
	struct io_uring_params params = { .flags = flags };

	for (int i = 0; i < ODD; i++)
		CHECK_EQ(error_of(odd[i]), errors[i]);
	if (!exist[(intptr_t)kind % KINDS])
		return kind;
	int fd = syscall(SYS_io_uring_setup, ENTRIES, &params);
	CHECK(fd >= 0);
	CHECK_EQ(params.flags, flags);
	size_t bytes = params.sq_off.array + params.sq_entries * sizeof(unsigned);
	size_t end = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	char *ring = mmap(NULL, end > bytes ? end : bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
	struct io_uring_sqe *entries = mmap(NULL, params.sq_entries * sizeof *entries,
					    PROT_READ | PROT_WRITE, MAP_SHARED, fd,
					    IORING_OFF_SQES);
	CHECK(ring != MAP_FAILED && entries != MAP_FAILED);
	unsigned *tail = (unsigned *)(ring + params.sq_off.tail);
	unsigned *array = (unsigned *)(ring + params.sq_off.array);
	unsigned *head = (unsigned *)(ring + params.cq_off.head);
	struct io_uring_cqe *done = (struct io_uring_cqe *)(ring + params.cq_off.cqes);
	int number = (intptr_t)kind < KINDS ? -1 : registered(fd);
	unsigned how = IORING_ENTER_GETEVENTS | (number < 0 ? 0 : IORING_ENTER_REGISTERED_RING);

	for (unsigned turn = 0; turn < TURNS; turn++) {
		const struct timespec moment = { 0, 300000 };

		memset(entries, 0, sizeof *entries);
		entries->opcode = IORING_OP_NOP;
		entries->user_data = (uintptr_t)kind * TURNS + turn;
		array[turn % ENTRIES] = 0;
		__atomic_store_n(tail, turn + 1, __ATOMIC_RELEASE);
		CHECK_EQ(syscall(SYS_io_uring_enter, number < 0 ? fd : number, 1, 1, how, NULL, 0),
			 1);
		CHECK_EQ(done[turn % params.cq_entries].user_data, (uintptr_t)kind * TURNS + turn);
		__atomic_store_n(head, turn + 1, __ATOMIC_RELEASE);
		CHECK_EQ(nanosleep(&moment, NULL), 0);
		for (volatile int work = WORK; work > 0; work--)
			;
	}
	CHECK_EQ(close(fd), 0);
	return kind;
}

static void *computes(void *unused)
{
	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED))
		;
	return unused;
}

int main(void)
{
	struct io_uring_params params = { 0 };
	pthread_t threads[THREADS], beside;
	int fd = syscall(SYS_io_uring_setup, ENTRIES, &params);

	if (fd < 0)
		SKIP("no io_uring here");
	if (!(params.features & IORING_FEAT_SINGLE_MMAP))
		SKIP("rings are in two parts here");
	CHECK_EQ(close(fd), 0);
	for (int i = 0; i < KINDS; i++) {
		int error = error_of(kinds[i]);

		CHECK(error == 0 || error == EINVAL);
		exist[i] = !error;
	}
	for (int i = 0; i < ODD; i++)
		errors[i] = error_of(odd[i]);
	for (intptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, has_ring, (void *)i), 0);
	CHECK_EQ(pthread_create(&beside, NULL, computes, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	__atomic_store_n(&ends, 1, __ATOMIC_RELAXED);
	CHECK_EQ(pthread_join(beside, NULL), 0);
	return 0;
}
