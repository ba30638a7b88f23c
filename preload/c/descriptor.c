/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Where descriptors stand that stay open: a program counts on its numbers, the lowest that are
 * free, and does not meet these.
 *
 * Invariant: no number is above what an fd_set has. select() that is given a larger count looks at
 * as many bits as the kernel's table has room for.
 */
#define _GNU_SOURCE
#include "descriptor.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

/* Between these are the ranges that are tried, one after the other; the kernel refuses those beyond
 * RLIMIT_NOFILE. As in runtime/src/sys/descriptor.rs. */
static const int borders[] = {1024, 1000, 768, 512, 250, 192, 128, 60, 48, 32};

/* The kernel takes the lowest number that is free, which lies in the range while the last one does.
 * To try and look would have made its table larger for good. */
static int copy_into(int file, int from, int end)
{
	return fcntl(end - 1, F_GETFD) < 0 ? fcntl(file, F_DUPFD_CLOEXEC, from) : -1;
}

int descriptor_raised(int file)
{
	const size_t last = sizeof(borders) / sizeof(borders[0]) - 1;
	int high = -1;

	if (file < 0)
		return file;
	for (size_t i = 0; i < last && file < borders[i + 1] && high < 0; i++)
		high = copy_into(file, borders[i + 1], borders[i]);
	if (high < 0)
		return file;
	close(file);
	return high;
}
