/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The program's allocator is the program's. A library below its threads that came here could wait
 * for a lock that a thread holds which it does not run; so, once they have started, its kernel
 * threads don't, but for the one whose business it is to wait for others (heddle-steward).
 */
#include "check.h"
#include "own_heap.h"
#include "unseen.h"
#include <ctype.h>
#include <stdalign.h>
#include <string.h>
#include <sys/prctl.h>

#define HEAP_BYTES (64 << 20)
#define ROUNDS 20
#define THREADS 16
#define KERNEL_THREADS 256

static alignas(64) char heap[HEAP_BYTES];
static size_t used;
/* The thread is one of the program's, and not a library's. */
static __thread int is_ours;

/* What the threads that are not ours have done, by their kernel threads. */
static struct entry {
	int tid;
	int allocations;
	int frees;
	char name[16];
} entries[KERNEL_THREADS];
static int count;
static char lock;

static long call_unseen(long number, long first, void *second)
{
#ifdef __x86_64__
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(first), "S"(second)
			 : "rcx", "r11", "memory");
	return result;
#else
	return syscall(number, first, second);
#endif
}

static void note(int allocations, int frees)
{
	if (is_ours)
		return;
	int tid = (int)call_unseen(SYS_gettid, 0, NULL), i = 0;
	while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
		continue;
	while (i < count && entries[i].tid != tid)
		i++;
	if (i < KERNEL_THREADS) {
		entries[i].tid = tid;
		call_unseen(SYS_prctl, PR_GET_NAME, entries[i].name);
		entries[i].allocations += allocations;
		entries[i].frees += frees;
		if (i == count)
			count++;
	}
	__atomic_clear(&lock, __ATOMIC_RELEASE);
}

static void *take(size_t align, size_t bytes)
{
	note(1, 0);
	if (align < 16)
		align = 16;
	size_t taken = __atomic_fetch_add(&used, bytes + align + sizeof(size_t), __ATOMIC_RELAXED);
	if (taken + bytes + align + sizeof(size_t) > sizeof(heap))
		return NULL;
	size_t *at = (size_t *)(((uintptr_t)heap + taken + sizeof(*at) + align - 1) / align * align);
	at[-1] = bytes;
	return at;
}

static void freed(void)
{
	note(0, 1);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turn, pipes[THREADS][2];

/* Waits in every way, and computes. */
static void *lives(void *arg)
{
	is_ours = 1;
	int me = (int)(intptr_t)arg;
	char byte;
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	while (turn != me)
		CHECK_EQ(pthread_cond_wait(&cond, &mutex), 0);
	turn++;
	CHECK_EQ(pthread_cond_broadcast(&cond), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	usleep(200);
	for (volatile int i = 0; i < 100000; i++)
		continue;
	CHECK_EQ(write(pipes[me][1], "x", 1), 1);
	CHECK_EQ(read(pipes[(me + 1) % THREADS][0], &byte, 1), 1);
	CHECK_EQ(write(pipes[me][1], "x", 1), 1);
	CHECK_EQ(read_unseen(pipes[(me + 1) % THREADS][0], &byte, 1), 1);
	char *volatile bytes = malloc(100);
	CHECK(bytes);
	free(bytes);
	return arg;
}

static void live(int rounds)
{
	for (int round = 0; round < rounds; round++) {
		pthread_t threads[THREADS];
		turn = 0;
		for (intptr_t i = 0; i < THREADS; i++)
			threads[i] = start_thread(lives, (void *)i);
		for (int i = 0; i < THREADS; i++)
			join_thread(threads[i]);
	}
}

static int is_worker(const struct entry *entry)
{
	return strncmp(entry->name, "heddle-", 7) == 0 && isdigit((unsigned char)entry->name[7]);
}

int main(void)
{
	static struct entry before[KERNEL_THREADS];
	is_ours = 1;
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pipe(pipes[i]), 0);
	live(2);
	int known = count;
	memcpy(before, entries, sizeof(before));
	live(ROUNDS);
	for (int i = 0; i < count; i++) {
		int is_monitor = strcmp(entries[i].name, "heddle-monitor") == 0;
		if (!is_monitor && (!is_worker(&entries[i]) || i >= known))
			continue;
		if (entries[i].allocations != before[i].allocations)
			fprintf(stderr, "%s allocated\n", entries[i].name);
		CHECK_EQ(entries[i].allocations, before[i].allocations);
		/* Who ends frees. */
		if (is_monitor)
			CHECK_EQ(entries[i].frees, before[i].frees);
	}
	return 0;
}
