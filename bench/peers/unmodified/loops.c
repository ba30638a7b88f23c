// What threads cost a program that knows nothing of heddle: create + join, and sched_yield.
//
//   loops create_join BATCHES          the main thread creates 1000 threads, then joins them
//   loops create_join_thread BATCHES   another thread does so
//   loops sched_yield OPS              two threads yield OPS times each
//
// Prints ns: CPU time of the process for one of them. Create + join is the least of BATCHES; a
// batch before them touches memory and is not counted.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "../c/common.h"

enum { BATCH = 1000, YIELDERS = 2 };

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

int main(int argc, char **argv)
{
	long ops;

	if (argc != 3) {
		fprintf(stderr, "usage: loops create_join|create_join_thread|sched_yield OPS\n");
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
	} else {
		fprintf(stderr, "no loop is called %s\n", argv[1]);
		return 2;
	}
	return 0;
}
