/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A reader of an empty pipe waits for its writer, sees every byte in order, then end of file.
 */
#define _GNU_SOURCE
#include "check.h"

enum { TOTAL = 300000 };
static int ends[2];

static void *writes(void *arg)
{
	char buffer[1000];
	for (int sent = 0; sent < TOTAL; sent += (int)sizeof buffer) {
		for (size_t i = 0; i < sizeof buffer; i++)
			buffer[i] = (char)((sent + (int)i) % 251);
		CHECK_EQ(write(ends[1], buffer, sizeof buffer), sizeof buffer);
		if (sent % 50000 == 0)
			sleep_ms(1);
	}
	CHECK_EQ(close(ends[1]), 0);
	return arg;
}

static void *reads(void *arg)
{
	char buffer[777];
	int seen = 0;
	ssize_t length;
	while ((length = read(ends[0], buffer, sizeof buffer)) > 0)
		for (ssize_t i = 0; i < length; i++, seen++)
			CHECK_EQ(buffer[i], (char)(seen % 251));
	CHECK_EQ(length, 0);
	CHECK_EQ(seen, TOTAL);
	return arg;
}

int main(void)
{
	CHECK_EQ(pipe(ends), 0);
	pthread_t reader = start_thread(reads, NULL), writer = start_thread(writes, NULL);
	join_thread(writer);
	join_thread(reader);
	return 0;
}
