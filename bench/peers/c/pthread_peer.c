// Peer: plain POSIX threads, the kernel's own. Same protocol as every peer (common.h).
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"
#include "memory.h"

enum { STACK_BYTES = 16384, WARM_YIELDS = 2, BATCH = 1000, CAPACITY = 128, CHECK_EVERY = 100 };

struct turn {
	sem_t go;
};

static long rounds, total;
static int touches; // yield_touch: two lines of the own stack between yields, random ready order
static struct turn *turns;
static atomic_long finished, parked;
static atomic_flag started = ATOMIC_FLAG_INIT;
static uint64_t begin_ns, end_ns;
static sem_t all_done;

static int start(pthread_t *thread, void *(*body)(void *), void *arg)
{
	pthread_attr_t attr;
	int error;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	error = pthread_create(thread, &attr, body, arg);
	pthread_attr_destroy(&attr);
	return error;
}

static void start_or_die(pthread_t *thread, void *(*body)(void *), void *arg)
{
	int error = start(thread, body, arg);

	if (error)
		die("pthread_create", error);
}

static void *yielder(void *arg)
{
	struct turn *turn = arg;
	volatile uint64_t lines[16] = { 0 };

	sem_wait(&turn->go);
	for (int i = 0; i < WARM_YIELDS; i++)
		sched_yield();
	if (!atomic_flag_test_and_set(&started))
		begin_ns = cpu_ns();
	for (long i = 0; i < rounds; i++) {
		if (touches) {
			lines[0]++;
			lines[8]++;
		}
		sched_yield();
	}
	if (atomic_fetch_add(&finished, 1) + 1 == total) {
		end_ns = cpu_ns();
		sem_post(&all_done);
	}
	return NULL;
}

// Wakes the threads in random order; their ready order stays random from then on.
static void shuffle(long *order, long count)
{
	uint64_t x = 88172645463325252u;

	for (long i = 0; i < count; i++)
		order[i] = i;
	for (long i = count - 1; i > 0; i--) {
		long j, swap = order[i];

		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		j = (long)(x % (uint64_t)(i + 1));
		order[i] = order[j], order[j] = swap;
	}
}

static double yields(long ops, long threads)
{
	long *order = calloc((size_t)threads, sizeof *order);
	pthread_t thread;

	total = threads;
	rounds = ops / threads > 0 ? ops / threads : 1;
	turns = calloc((size_t)threads, sizeof *turns);
	if (!order || !turns)
		die("calloc", ENOMEM);
	sem_init(&all_done, 0, 0);
	for (long i = 0; i < threads; i++) {
		sem_init(&turns[i].go, 0, 0);
		start_or_die(&thread, yielder, &turns[i]);
	}
	shuffle(order, threads);
	for (long i = 0; i < threads; i++)
		sem_post(&turns[touches ? order[i] : i].go);
	sem_wait(&all_done);
	return (double)(end_ns - begin_ns) / (double)(rounds * threads);
}

static void *nothing(void *arg)
{
	return arg;
}

static double spawn_join(long ops)
{
	static pthread_t threads[BATCH];
	long batches = ops / BATCH > 0 ? ops / BATCH : 1;
	uint64_t begin = 0;

	for (long b = -1; b < batches; b++) { // the first batch touches memory, uncounted
		if (b == 0)
			begin = cpu_ns();
		for (long i = 0; i < BATCH; i++)
			start_or_die(&threads[i], nothing, NULL);
		for (long i = 0; i < BATCH; i++)
			pthread_join(threads[i], NULL);
	}
	return (double)(cpu_ns() - begin) / (double)(batches * BATCH);
}

static sem_t ping, pong;

static void *answer(void *arg)
{
	for (long i = *(long *)arg; i > 0; i--) {
		sem_wait(&ping);
		sem_post(&pong);
	}
	return NULL;
}

static double sem_round_trip(long ops)
{
	pthread_t thread;
	uint64_t begin;

	sem_init(&ping, 0, 0);
	sem_init(&pong, 0, 0);
	start_or_die(&thread, answer, &ops);
	begin = cpu_ns();
	for (long i = 0; i < ops; i++) {
		sem_post(&ping);
		sem_wait(&pong);
	}
	return (double)(cpu_ns() - begin) / (double)ops;
}

static void *sleeper(void *arg)
{
	for (;;)
		pause();
	return arg;
}

// glibc locks without atomic instructions while a process has one kernel thread, which is no lock
// that anyone has a use for; so there are two.
static double mutex(long ops)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;
	uint64_t begin;

	start_or_die(&thread, sleeper, NULL);
	begin = cpu_ns();
	for (long i = 0; i < ops; i++) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	return (double)(cpu_ns() - begin) / (double)ops;
}

// A bounded queue as a textbook has it: one lock, two conditions.
static struct {
	pthread_mutex_t lock;
	pthread_cond_t not_empty, not_full;
	long items[CAPACITY], head, len;
} channel = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
	      { 0 }, 0, 0 };

static void *produce(void *arg)
{
	long ops = *(long *)arg;

	for (long i = 0; i < ops; i++) {
		pthread_mutex_lock(&channel.lock);
		while (channel.len == CAPACITY)
			pthread_cond_wait(&channel.not_full, &channel.lock);
		channel.items[(channel.head + channel.len++) % CAPACITY] = i;
		if (channel.len == 1)
			pthread_cond_signal(&channel.not_empty);
		pthread_mutex_unlock(&channel.lock);
	}
	return NULL;
}

static double channel_item(long ops)
{
	pthread_t thread;
	uint64_t begin = cpu_ns();

	start_or_die(&thread, produce, &ops);
	for (long i = 0; i < ops; i++) {
		pthread_mutex_lock(&channel.lock);
		while (channel.len == 0)
			pthread_cond_wait(&channel.not_empty, &channel.lock);
		if (channel.items[channel.head] != i)
			die("channel", EPROTO);
		channel.head = (channel.head + 1) % CAPACITY;
		if (channel.len-- == CAPACITY)
			pthread_cond_signal(&channel.not_full);
		pthread_mutex_unlock(&channel.lock);
	}
	return (double)(cpu_ns() - begin) / (double)ops;
}

static void *park(void *arg)
{
	volatile char used[600];

	memset((char *)used, 1, arg ? sizeof used : 1);
	atomic_fetch_add(&parked, 1);
	for (;;)
		pause();
	return (void *)(uintptr_t)used[0];
}

static int parking(long threads, long used_bytes)
{
	double memory = memory_bytes();
	uint64_t begin = cpu_ns();
	long i, checkpoint = 1;
	pthread_t thread;
	int error = 0;

	for (i = 0; i < threads; i++) {
		error = start(&thread, park, used_bytes > 0 ? &begin : NULL);
		if (error)
			break;
		if ((i + 1) % CHECK_EVERY == 0 || i + 1 == checkpoint)
			while (atomic_load(&parked) <= i)
				sched_yield();
		if (i + 1 == checkpoint) {
			printf("at_%ld %.0f\n", checkpoint, (double)(cpu_ns() - begin));
			checkpoint = next_checkpoint(checkpoint);
		}
	}
	while (atomic_load(&parked) < i)
		sched_yield();
	printf("reached %ld\n", i);
	printf("create_ns %.1f\n", (double)(cpu_ns() - begin) / (double)(i ? i : 1));
	printf("bytes %.1f\n", (memory_bytes() - memory) / (double)(i ? i : 1));
	printf("vmas %ld\n", vma_count());
	fflush(stdout);
	if (error)
		fprintf(stderr, "pthread_create: %s\n", strerror(error));
	_exit(0);
}

int main(int argc, char **argv)
{
	long ops, threads;
	double ns;

	if (argc < 4) {
		fprintf(stderr, "usage: pthread_peer METRIC OPS THREADS\n");
		return 2;
	}
	ops = number(argv[2], 1, 1L << 40);
	threads = number(argv[3], 1, 100000000);
	touches = !strcmp(argv[1], "yield_touch");
	if (touches || !strcmp(argv[1], "yield"))
		ns = yields(ops, threads);
	else if (!strcmp(argv[1], "spawn_join"))
		ns = spawn_join(ops);
	else if (!strcmp(argv[1], "sem_round_trip"))
		ns = sem_round_trip(ops);
	else if (!strcmp(argv[1], "mutex"))
		ns = mutex(ops);
	else if (!strcmp(argv[1], "channel_item"))
		ns = channel_item(ops);
	else if (!strcmp(argv[1], "parked"))
		return parking(threads, 0);
	else if (!strcmp(argv[1], "hibernated"))
		return parking(threads, 600);
	else {
		fprintf(stderr, "POSIX threads have no %s\n", argv[1]);
		return EXIT_NOT_OFFERED;
	}
	printf("ns %.3f\n", ns);
	fflush(stdout);
	_exit(0);
}
