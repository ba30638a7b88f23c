/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Locks of stdio streams: each call's output stays whole, flockfile excludes and counts, and who
 * waits for a stream, or in one, keeps nobody from another.
 */
#define _GNU_SOURCE
#include "check.h"

#define THREADS 12
#define LINES 200

static FILE *shared, *slow;
static int holding, waiting, tried;

static void *prints(void *arg)
{
	char letter = (char)('a' + (intptr_t)arg);

	for (int i = 0; i < LINES; i++) {
		if (i % 3 == 0) {
			/* Several calls, one line. */
			flockfile(shared);
			flockfile(shared);
			for (int j = 0; j < 10; j++)
				putc_unlocked(letter, shared);
			if (i % 30 == 0)
				sched_yield();
			funlockfile(shared);
			fprintf(shared, "%c%c%c\n", letter, letter, letter);
			funlockfile(shared);
		} else {
			fprintf(shared, "%c%c%c%c%c\n", letter, letter, letter, letter, letter);
		}
		if (i % 50 == 0)
			fflush(shared);
	}
	return arg;
}

static void check_lines(void)
{
	char line[64];
	int lines = 0;

	rewind(shared);
	for (; fgets(line, sizeof line, shared) != NULL; lines++) {
		size_t length = strlen(line) - 1;
		CHECK(length == 5 || length == 13);
		for (size_t i = 0; i < length; i++)
			CHECK_EQ(line[i], line[0]);
	}
	CHECK_EQ(lines, THREADS * LINES);
}

/* Waits for input with the stream's lock held. */
static void *reads(void *arg)
{
	char line[16];
	set_value(&holding, 1);
	CHECK(fgets(line, sizeof line, slow) != NULL);
	CHECK_EQ(strcmp(line, "hello\n"), 0);
	return arg;
}

static void *waits_for_stream(void *arg)
{
	add_value(&waiting, 1);
	CHECK_EQ(getc(slow), 'x');
	return arg;
}

static void *tries(void *arg)
{
	while (ftrylockfile(slow) == 0) {
		/* The reader is not there yet. */
		funlockfile(slow);
		sched_yield();
	}
	set_value(&tried, 1);
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS], reader, other, trier;
	int fds[2];

	CHECK((shared = tmpfile()) != NULL);
	for (intptr_t i = 0; i < THREADS; i++)
		threads[i] = start_thread(prints, (void *)i);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	check_lines();

	CHECK_EQ(pipe(fds), 0);
	CHECK((slow = fdopen(fds[0], "r")) != NULL);
	reader = start_thread(reads, NULL);
	await_value(&holding, 1);
	trier = start_thread(tries, NULL);
	await_value(&tried, 1);
	other = start_thread(waits_for_stream, NULL);
	await_value(&waiting, 1);
	/* Both wait; another stream is free all the same, for a thread, too. */
	join_thread(start_thread(prints, (void *)1));
	CHECK_EQ(write(fds[1], "hello\n", 6), 6);
	join_thread(reader);
	join_thread(trier);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	join_thread(other);
	return 0;
}
