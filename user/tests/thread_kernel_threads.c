/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * With the library a hundred threads that wait are a few kernel threads; without it a hundred.
 */
#include "check.h"
#include <dirent.h>

#define THREADS 100
#define FEW 40

static sem_t go, there;

static void *start(void *arg)
{
	CHECK_EQ(sem_post(&there), 0);
	CHECK_EQ(sem_wait(&go), 0);
	return arg;
}

static int kernel_threads(void)
{
	int count = 0;
	DIR *folder = opendir("/proc/self/task");
	CHECK(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count - 2;
}

static int is_loaded(void)
{
	char line[512];
	int found = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, "libheddle-user") != NULL;
	fclose(maps);
	return found;
}

int main(void)
{
	pthread_t threads[THREADS];
	CHECK_EQ(sem_init(&go, 0, 0), 0);
	CHECK_EQ(sem_init(&there, 0, 0), 0);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(start, &threads[i]);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(sem_wait(&there), 0);
	int count = kernel_threads();
	if (is_loaded())
		CHECK(count < FEW);
	else
		CHECK_EQ(count, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(sem_post(&go), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(join_thread(threads[i]) == &threads[i]);
	return 0;
}
