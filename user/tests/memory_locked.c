/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program that locks its memory, now and to come, gets its threads' stacks resident and little
 * else: not what is there for threads that it never makes. Both before its first thread and after.
 */
#include "resident.h"

#include <sys/mman.h>
#include <sys/wait.h>

/* What each thread asks for, and what may come besides: the libraries, and first stacks. */
enum { STACK_KB = 256, THREADS = 4, MORE_KB = 128 << 10 };

static const size_t ROOM = (size_t)8 << 30;

static void *nothing(void *arg)
{
	return arg;
}

static void run(void)
{
	pthread_t threads[THREADS];
	pthread_attr_t attributes;
	CHECK_EQ(pthread_attr_init(&attributes), 0);
	CHECK_EQ(pthread_attr_setstacksize(&attributes, STACK_KB << 10), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], &attributes, nothing, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(pthread_attr_destroy(&attributes), 0);
}

static void lock_and_run(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		SKIP("this user may not lock memory");
	/* Room that is kept for threads counts as locked, though nothing is there. */
	void *room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		SKIP("this user may lock little memory");
	CHECK_EQ(munmap(room, ROOM), 0);
	run();
	long kb = resident_kb();
	printf("%ld KiB resident\n", kb);
	CHECK(kb < THREADS * STACK_KB + MORE_KB);
}

int main(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		run();
		lock_and_run();
		exit(0);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
	lock_and_run();
	return 0;
}
