/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads read and write one descriptor of a disk's file: each gets a record whole, whatever of it
 * is in memory already, and each is written whole.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>

enum { PAGE = 4096, PAGES = 8, RECORD = PAGE * PAGES, RECORDS = 256, THREADS = 4, TURNS = 4 };
static char path[] = "/var/tmp/heddle-shared-XXXXXX";
static int shared;
static int seen[RECORDS];

static int number_of(const char *record)
{
	int number;

	memcpy(&number, record, sizeof number);
	for (int i = 0; i < RECORD; i += (int)sizeof number)
		CHECK_EQ(memcmp(record + i, &number, sizeof number), 0);
	CHECK(number >= 0 && number < RECORDS);
	return number;
}

static void make(char *record, int number)
{
	for (int i = 0; i < RECORD; i += (int)sizeof number)
		memcpy(record + i, &number, sizeof number);
}

static void *reads(void *arg)
{
	char *record = malloc(RECORD);
	ssize_t count;

	while ((count = read(shared, record, RECORD)) != 0) {
		CHECK_EQ(count, RECORD);
		__atomic_add_fetch(&seen[number_of(record)], 1, __ATOMIC_RELAXED);
	}
	free(record);
	return arg;
}

static void *writes(void *arg)
{
	char *record = malloc(RECORD);

	for (int i = 0; i < RECORDS / THREADS; i++) {
		make(record, (int)(long)arg * (RECORDS / THREADS) + i);
		CHECK_EQ(write(shared, record, RECORD), RECORD);
	}
	free(record);
	return arg;
}

static void all(void *(*work)(void *))
{
	pthread_t threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		threads[i] = start_thread(work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
}

/* Every other page of each record stays in memory, or what the turn says. */
static void cache_parts(int turn)
{
	char page[PAGE];

	CHECK_EQ(fsync(shared), 0);
	CHECK_EQ(posix_fadvise(shared, 0, 0, POSIX_FADV_DONTNEED), 0);
	CHECK_EQ(posix_fadvise(shared, 0, 0, POSIX_FADV_RANDOM), 0);
	for (int i = turn % 2; i < RECORDS * PAGES; i += 2 + turn)
		CHECK_EQ(pread(shared, page, PAGE, (off_t)i * PAGE), PAGE);
}

int main(void)
{
	shared = mkstemp(path);
	CHECK(shared >= 0);
	unlink(path);
	all(writes);
	for (int turn = 0; turn < TURNS; turn++) {
		cache_parts(turn);
		CHECK_EQ(lseek(shared, 0, SEEK_SET), 0);
		memset(seen, 0, sizeof seen);
		all(reads);
		for (int i = 0; i < RECORDS; i++)
			CHECK_EQ(seen[i], 1);
	}
	return 0;
}
