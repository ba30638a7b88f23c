// What threads cost a program that knows nothing of heddle: create + join, sched_yield, and how
// late a thread wakes beside others that compute.
//
//   loops create_join BATCHES          the main thread creates 1000 threads, then joins them
//   loops create_join_thread BATCHES   another thread does so
//   loops sched_yield OPS              two threads yield OPS times each
//   loops wake_late OPS                a thread sleeps for 1 ms OPS times, beside 4 that compute
//
// Prints ns: CPU time of the process for one of them; of wake_late the time between the end of the
// sleep that was asked for and the end of the call, the median. Create + join is the least of
// BATCHES; a batch before them touches memory and is not counted.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "../c/common.h"

enum { BATCH = 1000, YIELDERS = 2, HOGS = 4, NAP_NS = 1000000 };

static void start(pthread_t *thread, void *(*body)(void *), void *argument)
{
	int error = pthread_create(thread, NULL, body, argument);

	if (error)
		die("pthread_create", error);
}

static void finish(pthread_t thread)
{
	int error = pthread_join(thread, NULL);

	if (error)
		die("pthread_join", error);
}

static void *nothing(void *argument)
{
	return argument;
}

static void *create_join(void *argument)
{
	static pthread_t threads[BATCH];
	uint64_t least = UINT64_MAX;

	for (long batch = 0; batch <= *(long *)argument; batch++) {
		uint64_t begin = cpu_ns(), spent;

		for (int i = 0; i < BATCH; i++)
			start(&threads[i], nothing, NULL);
		for (int i = 0; i < BATCH; i++)
			finish(threads[i]);
		spent = cpu_ns() - begin;
		if (batch > 0 && spent < least)
			least = spent;
	}
	printf("ns %.3f\n", (double)least / BATCH);
	return NULL;
}

static void *yield(void *argument)
{
	for (long i = *(long *)argument; i > 0; i--)
		sched_yield();
	return NULL;
}

static void sched_yields(long ops)
{
	pthread_t threads[YIELDERS];
	uint64_t begin = cpu_ns();

	for (int i = 0; i < YIELDERS; i++)
		start(&threads[i], yield, &ops);
	for (int i = 0; i < YIELDERS; i++)
		finish(threads[i]);
	printf("ns %.3f\n", (double)(cpu_ns() - begin) / (double)(ops * YIELDERS));
}

static _Atomic int is_over;

static void *compute(void *number)
{
	uint64_t x = *(uint64_t *)number;

	while (!is_over) {
		for (int i = 0; i < 10000; i++)
			x = x * 6364136223846793005u + 1442695040888963407u;
	}
	*(uint64_t *)number = x;
	return NULL;
}

static int by_value(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

static void *naps(void *argument)
{
	long ops = *(long *)argument;
	uint64_t *late = calloc((size_t)ops, sizeof *late);
	const struct timespec nap = {0, NAP_NS};

	if (!late)
		die("calloc", ENOMEM);
	for (long i = 0; i < ops; i++) {
		uint64_t begin = clock_ns(CLOCK_MONOTONIC);

		nanosleep(&nap, NULL);
		late[i] = clock_ns(CLOCK_MONOTONIC) - begin - NAP_NS;
	}
	qsort(late, (size_t)ops, sizeof *late, by_value);
	printf("ns %llu\n", (unsigned long long)late[ops / 2]);
	free(late);
	is_over = 1;
	return NULL;
}

static void wake_late(long ops)
{
	pthread_t threads[HOGS + 1];
	uint64_t numbers[HOGS] = {1, 2, 3, 4};

	for (int i = 0; i < HOGS; i++)
		start(&threads[i], compute, &numbers[i]);
	start(&threads[HOGS], naps, &ops);
	for (int i = 0; i <= HOGS; i++)
		finish(threads[i]);
}

int main(int argc, char **argv)
{
	long ops;

	if (argc != 3) {
		fprintf(stderr, "usage: loops create_join|create_join_thread|sched_yield|wake_late OPS\n");
		return 2;
	}
	ops = number(argv[2], 1, 1000000000);
	if (!strcmp(argv[1], "create_join")) {
		create_join(&ops);
	} else if (!strcmp(argv[1], "create_join_thread")) {
		pthread_t thread;

		start(&thread, create_join, &ops);
		finish(thread);
	} else if (!strcmp(argv[1], "sched_yield")) {
		sched_yields(ops);
	} else if (!strcmp(argv[1], "wake_late")) {
		wake_late(ops);
	} else {
		fprintf(stderr, "no loop is called %s\n", argv[1]);
		return 2;
	}
	return 0;
}
