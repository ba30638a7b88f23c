// How many threads can be had: creates threads of default size that stay.
//
//   threads COUNT plain|locked [ADDRESS_SPACE_MIB]
//
// A creation that fails is counted, and the next is tried all the same. With `locked` the process
// first locks all its memory, present and future (mlockall); with ADDRESS_SPACE_MIB it first limits
// its address space. Each thread uses a little of its stack and waits; none ends before the end.
//
// Prints stack_bytes (the default size), reached, first_failure (0: none), failures_at_N for every
// hundredth attempt N, and rss_bytes and locked_bytes of the process while all threads wait.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

#include "../c/common.h"

enum { COUNT_MAX = 100000, USED_BYTES = 4096, STEP = 100 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static sem_t started;

void *waiting_thread(void *unused)
{
	volatile char used[USED_BYTES];

	for (int i = 0; i < USED_BYTES; i += 64)
		used[i] = 1;
	(void)used[0];
	sem_post(&started);
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return unused;
}

static double status_bytes(const char *key)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	unsigned long kib = 0;

	if (!status)
		die("/proc/self/status", errno);
	while (fgets(line, sizeof line, status))
		if (!strncmp(line, key, strlen(key)))
			sscanf(line + strlen(key), ": %lu", &kib);
	fclose(status);
	return (double)kib * 1024;
}

static void limit_address_space(long mib)
{
	struct rlimit limit = {.rlim_cur = (rlim_t)mib << 20, .rlim_max = (rlim_t)mib << 20};

	if (setrlimit(RLIMIT_AS, &limit))
		die("setrlimit RLIMIT_AS", errno);
}

static long create_all(pthread_t *threads, long count)
{
	long reached = 0, first_failure = 0;

	for (long i = 1; i <= count; i++) {
		if (!pthread_create(&threads[reached], NULL, waiting_thread, NULL))
			reached++;
		else if (!first_failure)
			first_failure = i;
		if (i % STEP == 0)
			printf("failures_at_%ld %ld\n", i, i - reached);
	}
	printf("first_failure %ld\n", first_failure);
	return reached;
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;
	pthread_t *threads;
	size_t stack_bytes;
	long count, reached;

	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: threads COUNT plain|locked [ADDRESS_SPACE_MIB]\n");
		return 2;
	}
	count = number(argv[1], 1, COUNT_MAX);
	if (argc == 4)
		limit_address_space(number(argv[3], 16, 1 << 20));
	if (!strcmp(argv[2], "locked") && mlockall(MCL_CURRENT | MCL_FUTURE))
		die("mlockall", errno);
	threads = calloc((size_t)count, sizeof *threads);
	if (!threads || sem_init(&started, 0, 0) || pthread_attr_init(&attributes))
		die("start", ENOMEM);
	pthread_attr_getstacksize(&attributes, &stack_bytes);
	printf("stack_bytes %zu\n", stack_bytes);
	pthread_mutex_lock(&gate);
	reached = create_all(threads, count);
	for (long i = 0; i < reached; i++)
		while (sem_wait(&started) && errno == EINTR)
			;
	printf("reached %ld\n", reached);
	printf("rss_bytes %.0f\nlocked_bytes %.0f\n", status_bytes("VmRSS"),
	       status_bytes("VmLck"));
	pthread_mutex_unlock(&gate);
	for (long i = 0; i < reached; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
