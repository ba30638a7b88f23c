/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What does not wait as a rule costs its system call alone: no kernel thread makes it for the
 * caller.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dirent.h>
#include <fcntl.h>

static char folder[] = "/tmp/heddle-place-XXXXXX", path[64];

/* Of kernel threads that make calls for others. */
static int helpers(void)
{
	char name[300], text[32];
	int count = 0;
	struct dirent *each;
	DIR *tasks = opendir("/proc/self/task");
	CHECK(tasks);
	while ((each = readdir(tasks))) {
		snprintf(name, sizeof name, "/proc/self/task/%s/comm", each->d_name);
		FILE *file = fopen(name, "r");
		if (file && fgets(text, sizeof text, file))
			count += strncmp(text, "heddle-blocking", 15) == 0;
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return count;
}

static void *calls(void *arg)
{
	int file = open(path, O_WRONLY | O_CREAT, 0600);
	CHECK(file >= 0);
	CHECK_EQ(ftruncate(file, 100), 0);
	CHECK_EQ(truncate(path, 50), 0);
	CHECK_EQ(lseek(file, 0, SEEK_END), 50);
	close(file);
	CHECK_EQ(helpers(), 0);
	return arg;
}

int main(void)
{
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/file", folder);
	join_thread(start_thread(calls, NULL));
	unlink(path);
	rmdir(folder);
	return 0;
}
