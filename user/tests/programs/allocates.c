/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that allocate and free all the time, on an allocator that is part of the program, and
 * that are preempted wherever that is: each block keeps what its owner wrote, also one that
 * another thread frees.
 *
 * Without an allocator from elsewhere it has one of its own: OWN=1, whose lock is a mutex, OWN=2,
 * whose lock is a word that others spin on and yield at. Both work long enough in their middle that
 * most preemptions come there, and count in a thread_local how deep each thread is. OWN=3 is as
 * OWN=1, and each thread asks the kernel for an area of restartable sequences, as allocators do
 * that have caches for each processor; the program tells how many threads were given one.
 *
 *     allocates ROUNDS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 6
#define SHARED 64
#define BYTES_MAX 6000

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                 \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#ifdef OWN
#include <errno.h>
#include <sys/mman.h>

#define CLASSES 32
#define HEAP_BYTES ((size_t)1 << 30)
#define WORK 300

struct free_block {
	struct free_block *next;
};

static struct free_block *freed[CLASSES];
static char *heap;
static size_t used;
static __thread volatile int depth;
static volatile unsigned int worked;

#if OWN == 3
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the kernel writes to is found by this name. */
__thread struct {
	uint32_t words[8];
} __rseq_abi __attribute__((aligned(32)));
static __thread int has_asked;
static atomic_int registered;

static void ask(void)
{
	if (has_asked++)
		return;
	if (syscall(SYS_rseq, &__rseq_abi, sizeof(__rseq_abi), 0, RSEQ_SIG) == 0)
		registered++;
}
#else
static void ask(void) { }
#endif

#if OWN != 2
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void take_lock(void) { pthread_mutex_lock(&lock); }
static void leave_lock(void) { pthread_mutex_unlock(&lock); }
#else
static atomic_int lock;
static void take_lock(void)
{
	for (int turns = 0; atomic_exchange_explicit(&lock, 1, memory_order_acquire); turns++)
		if (turns > 100)
			sched_yield();
}
static void leave_lock(void) { atomic_store_explicit(&lock, 0, memory_order_release); }
#endif

static void begin(void)
{
	if (depth++)
		abort();
	ask();
	take_lock();
	for (int i = 0; i < WORK; i++)
		worked++;
}

static void end(void)
{
	leave_lock();
	if (--depth)
		abort();
}

static unsigned int class_of(size_t bytes)
{
	unsigned int class = 5;

	while (((size_t)1 << class) < bytes + 16)
		class++;
	return class;
}

void *malloc(size_t bytes)
{
	unsigned int class = class_of(bytes);
	struct free_block *block;

	begin();
	if (!heap)
		heap = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	block = freed[class];
	if (block) {
		freed[class] = block->next;
	} else if (used + ((size_t)1 << class) <= HEAP_BYTES) {
		block = (void *)(heap + used);
		used += (size_t)1 << class;
	}
	end();
	if (!block) {
		errno = ENOMEM;
		return NULL;
	}
	((size_t *)block)[0] = class;
	((size_t *)block)[1] = bytes;
	return (char *)block + 16;
}

void free(void *old)
{
	struct free_block *block = (void *)((char *)old - 16);
	size_t class;

	if (!old)
		return;
	class = ((size_t *)block)[0];
	begin();
	block->next = freed[class];
	freed[class] = block;
	end();
}

void *calloc(size_t count, size_t bytes)
{
	void *new = malloc(count * bytes);

	if (new)
		memset(new, 0, count * bytes);
	return new;
}

void *realloc(void *old, size_t bytes)
{
	size_t before = old ? ((size_t *)old)[-1] : 0;
	void *new = malloc(bytes);

	if (new && old)
		memcpy(new, old, before < bytes ? before : bytes);
	if (new)
		free(old);
	return new;
}
#endif

struct block {
	size_t bytes;
	uint8_t mark;
	uint8_t rest[];
};

static struct block *_Atomic shared[SHARED];
static long rounds;
static atomic_int left = THREADS;
static atomic_long turns;

static uint32_t next_number(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static struct block *make(uint32_t *state)
{
	size_t bytes = next_number(state) % BYTES_MAX;
	uint8_t mark = (uint8_t)next_number(state);
	struct block *block = malloc(sizeof(*block) + bytes);

	CHECK(block);
	block->bytes = bytes;
	block->mark = mark;
	memset(block->rest, mark, bytes);
	return block;
}

static void look_at(const struct block *block)
{
	for (size_t i = 0; i < block->bytes; i++)
		CHECK(block->rest[i] == block->mark);
}

static void *allocates(void *argument)
{
	struct block *own[16] = {NULL};
	uint32_t state = (uint32_t)(uintptr_t)argument;

	for (long i = 0; i < rounds; i++) {
		struct block **mine = &own[next_number(&state) % 16];
		struct block *other = make(&state);

		if (*mine)
			look_at(*mine);
		if (i % 4 == 0) {
			free(*mine);
			*mine = other;
		} else {
			/* Somebody else's, freed here. */
			other = atomic_exchange(&shared[next_number(&state) % SHARED], other);
			if (other)
				look_at(other);
			free(other);
		}
		if (i % 64 == 0)
			*mine = realloc(*mine, sizeof(**mine) + BYTES_MAX);
		if (i % 64 == 0 && *mine)
			look_at(*mine);
	}
	for (int i = 0; i < 16; i++)
		free(own[i]);
	left--;
	return argument;
}

/* Makes the others share a worker by slices, which end wherever they are. */
static void *computes(void *argument)
{
	while (left)
		turns++;
	return argument;
}

int main(int count, char **words)
{
	pthread_t threads[THREADS], beside;

	rounds = count > 1 ? atol(words[1]) : 1000;
	pthread_create(&beside, NULL, computes, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, allocates, (void *)(i + 1)) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(pthread_join(beside, NULL) == 0);
	for (int i = 0; i < SHARED; i++)
		free(shared[i]);
#if defined(OWN) && OWN == 3
	if (registered)
		printf("%d registered\n", registered);
#endif
	puts("kept");
	return 0;
}
