/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that read past the cache all the time, and others beside them that wait for each other,
 * for pipes and for time: what is read is what was written, everybody comes to his end, and
 * signals and cancellations find whoever they are for, wherever he is.
 */
#define _GNU_SOURCE
#include "kill_until.h"
#include <fcntl.h>
#include <stdlib.h>

enum { BLOCK = 4096, BLOCKS = 64, READERS = 12, READS = 150, MIXED = 4, PAIRS = 3, ROUNDS = 400 };
static char path[] = "/var/tmp/heddle-moves-XXXXXX";
static int file, caught, reads_done;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long guarded;
static _Thread_local long own;

static void *new_block(void)
{
	void *block;

	CHECK_EQ(posix_memalign(&block, BLOCK, BLOCK), 0);
	return block;
}

static void read_one(unsigned *seed, unsigned char *block)
{
	*seed = *seed * 1103515245 + 12345;
	int number = (int)(*seed >> 8) % BLOCKS;

	memset(block, 0xff, BLOCK);
	CHECK_EQ(pread(file, block, BLOCK, (off_t)number * BLOCK), BLOCK);
	for (int i = 0; i < BLOCK; i++)
		CHECK_EQ(block[i], number);
}

/* Reads only. */
static void *reads(void *arg)
{
	unsigned seed = (unsigned)(long)arg;
	unsigned char *block = new_block();

	for (own = 0; own < READS; own++)
		read_one(&seed, block);
	CHECK_EQ(own, READS);
	free(block);
	return arg;
}

/* Reads, computes, waits and holds a lock. */
static void *mixes(void *arg)
{
	unsigned seed = (unsigned)(long)arg + 100;
	unsigned char *block = new_block();

	for (int i = 0; i < READS; i++) {
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
		long before = guarded++;
		read_one(&seed, block);
		CHECK_EQ(guarded, before + 1);
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
		read_one(&seed, block);
		if (i % 16 == 0)
			sleep_ms(2);
		errno = 1000 + i;
		sched_yield();
		CHECK_EQ(errno, 1000 + i);
	}
	free(block);
	return arg;
}

struct pair {
	int there[2], back[2];
};

static void *asks(void *arg)
{
	struct pair *pair = arg;

	for (int i = 0; i < ROUNDS; i++) {
		int answer = -1;
		CHECK_EQ(write(pair->there[1], &i, sizeof i), sizeof i);
		CHECK_EQ(read(pair->back[0], &answer, sizeof answer), sizeof answer);
		CHECK_EQ(answer, i + 1);
	}
	return arg;
}

static void *answers(void *arg)
{
	struct pair *pair = arg;

	for (int i = 0; i < ROUNDS; i++) {
		int question;
		CHECK_EQ(read(pair->there[0], &question, sizeof question), sizeof question);
		question++;
		CHECK_EQ(write(pair->back[1], &question, sizeof question), sizeof question);
	}
	return arg;
}

static void catches(int number)
{
	(void)number;
	add_value(&caught, 1);
}

static void *reads_until_cancelled(void *arg)
{
	unsigned seed = 7;
	unsigned char *block = new_block();

	pthread_cleanup_push(free, block);
	for (;;) {
		read_one(&seed, block);
		add_value(&reads_done, 1);
	}
	pthread_cleanup_pop(1);
	return arg;
}

/* A signal's handler runs in who reads, and a cancellation ends it. */
static void call_readers(void)
{
	struct sigaction action = { .sa_handler = catches, .sa_flags = SA_RESTART };
	pthread_t readers[3];
	void *result;

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	for (int i = 0; i < 3; i++)
		readers[i] = start_thread(reads_until_cancelled, NULL);
	while (__atomic_load_n(&reads_done, __ATOMIC_SEQ_CST) < 300)
		sleep_ms(1);
	for (int i = 0; i < 3; i++)
		kill_until(readers[i], SIGUSR1, &caught, i + 1);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(pthread_cancel(readers[i]), 0);
		CHECK_EQ(pthread_join(readers[i], &result), 0);
		CHECK(result == PTHREAD_CANCELED);
	}
}

int main(void)
{
	pthread_t threads[READERS + MIXED + 2 * PAIRS];
	struct pair pairs[PAIRS];
	unsigned char *block = new_block();
	int count = 0;

	file = mkstemp(path);
	CHECK(file >= 0);
	for (int i = 0; i < BLOCKS; i++) {
		memset(block, i, BLOCK);
		CHECK_EQ(write(file, block, BLOCK), BLOCK);
	}
	CHECK_EQ(fsync(file), 0);
	close(file);
	file = open(path, O_RDONLY | O_DIRECT);
	if (file < 0 && errno == EINVAL) {
		unlink(path);
		SKIP("the file system has no reads past the cache");
	}
	CHECK(file >= 0);
	unlink(path);
	for (long i = 0; i < READERS; i++)
		threads[count++] = start_thread(reads, (void *)i);
	for (long i = 0; i < MIXED; i++)
		threads[count++] = start_thread(mixes, (void *)i);
	for (int i = 0; i < PAIRS; i++) {
		CHECK_EQ(pipe(pairs[i].there) + pipe(pairs[i].back), 0);
		threads[count++] = start_thread(asks, &pairs[i]);
		threads[count++] = start_thread(answers, &pairs[i]);
	}
	while (count > 0)
		join_thread(threads[--count]);
	CHECK_EQ(guarded, MIXED * READS);
	call_readers();
	free(block);
	return 0;
}
