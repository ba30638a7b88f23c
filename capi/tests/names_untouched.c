/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Members, variables and parameters with the names of mapped calls keep compiling and keep their
 * meaning.
 */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <poll.h>

struct device {
	int (*open)(int);
	int (*read)(int);
	int (*write)(int);
	int (*close)(int);
	int poll, select, accept, send;
};

static int add_one(int value)
{
	return value + 1;
}

static int use(int connect, int sleep)
{
	int recv = connect + sleep;
	return recv;
}

/* The address of a mapped call is that of heddle's function. */
static ssize_t (*const reader)(int, void *, size_t) = read;
static ssize_t (*const writer)(int, const void *, size_t) = write;

static int ends[2];

static void *reads(void *arg)
{
	char byte;
	CHECK_EQ(reader(ends[0], &byte, 1), 1);
	return arg;
}

int main(void)
{
	struct device device = { .open = add_one, .read = add_one, .write = add_one,
				 .close = add_one, .poll = 1, .select = 2, .accept = 3, .send = 4 };
	CHECK_EQ(device.open(device.read(device.write(device.close(0)))), 4);
	CHECK_EQ(device.poll + device.select + device.accept + device.send, 10);
	CHECK_EQ(use(2, 3), 5);
	CHECK_EQ(pipe(ends), 0);
	pthread_t thread = start_thread(reads, NULL);
	sleep_ms(2);
	CHECK_EQ(writer(ends[1], "x", 1), 1);
	join_thread(thread);
	return 0;
}
