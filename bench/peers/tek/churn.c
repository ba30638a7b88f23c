// The cost of a thread's life: creates a thread that does nothing and joins it, again and again.
//
//   churn BATCHES OPS
//
// Prints ns: the CPU time of one create + join, in the fastest of BATCHES batches of OPS each. The
// harness binds the process to one CPU, so nothing of the two threads' work overlaps.
#define _GNU_SOURCE
#include <pthread.h>

#include "../c/common.h"

void *nothing(void *unused)
{
	return unused;
}

static void batch(long ops)
{
	for (long i = 0; i < ops; i++) {
		pthread_t thread;
		int error = pthread_create(&thread, NULL, nothing, NULL);

		if (error)
			die("pthread_create", error);
		pthread_join(thread, NULL);
	}
}

int main(int argc, char **argv)
{
	uint64_t least = UINT64_MAX;
	long batches, ops;

	if (argc != 3) {
		fprintf(stderr, "usage: churn BATCHES OPS\n");
		return 2;
	}
	batches = number(argv[1], 1, 1000000);
	ops = number(argv[2], 1, 1000000);
	for (long i = 0; i < batches; i++) {
		uint64_t begin = cpu_ns(), spent;

		batch(ops);
		spent = cpu_ns() - begin;
		if (spent < least)
			least = spent;
	}
	printf("ns %.3f\n", (double)least / (double)ops);
	return 0;
}
