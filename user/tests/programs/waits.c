/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Four threads read files and pipes, then sleep for a while. It is printed whether they were kernel
 * threads, and whether the process used next to no CPU time meanwhile. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { THREADS = 4, SLEEP_US = 400000, LIMIT_US = SLEEP_US / 4 };

static int is_user_level, failed;

static long used_us(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec +
	       used.ru_stime.tv_usec;
}

static void *waits(void *name)
{
	char bytes[4], again[4];
	int ends[2], file = open(name, O_RDONLY | O_CLOEXEC);

	if (gettid() > 1 << 22)
		__atomic_store_n(&is_user_level, 1, __ATOMIC_RELAXED);
	if (read(file, bytes, 4) != 4 || pread(file, again, 4, 0) != 4 || memcmp(bytes, again, 4) ||
	    pipe(ends) || write(ends[1], bytes, 4) != 4 || read(ends[0], again, 4) != 4)
		__atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
	close(ends[0]);
	close(ends[1]);
	close(file);
	usleep(SLEEP_US);
	return NULL;
}

int main(int count, char **words)
{
	pthread_t threads[THREADS];
	long before;

	if (count < 1)
		return 1;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, waits, words[0]) != 0)
			return 1;
	usleep(SLEEP_US / 4);
	before = used_us();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%s, %s, %s\n", failed ? "failed" : "done", is_user_level ? "user" : "kernel",
	       used_us() - before < LIMIT_US ? "asleep" : "busy");
	return 0;
}
