/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A write of more than a pipe holds waits for the reader and is complete.
 */
#define _GNU_SOURCE
#include "check.h"

static int ends[2];
static char out[1 << 20], in[1 << 20];

static void *writes(void *arg)
{
	CHECK_EQ(write(ends[1], out, sizeof out), sizeof out);
	return arg;
}

int main(void)
{
	CHECK_EQ(pipe(ends), 0);
	for (size_t i = 0; i < sizeof out; i++)
		out[i] = (char)(i * 7);
	pthread_t thread = start_thread(writes, NULL);
	size_t seen = 0;
	while (seen < sizeof in) {
		ssize_t length = read(ends[0], in + seen, sizeof in - seen);
		CHECK(length > 0);
		seen += (size_t)length;
	}
	CHECK_EQ(memcmp(in, out, sizeof in), 0);
	join_thread(thread);
	return 0;
}
