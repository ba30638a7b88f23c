/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * heddle_configure names a file for a trace of the run, which fills while the process runs.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/wait.h>

#ifdef HEDDLE_PTHREAD_H
/* Whether the file has something of that by now. */
static int has(const char *path, const char *text)
{
	char got[4096] = "";
	/* It may have been replaced: opened anew. */
	FILE *file = fopen(path, "r");
	if (file == NULL)
		return 0;
	size_t bytes = fread(got, 1, sizeof got - 1, file);
	fclose(file);
	return bytes > 0 && strstr(got, text) != NULL;
}

static void *yields(void *arg)
{
	for (int i = 0; i < 50; i++)
		sched_yield();
	return arg;
}
#endif

int main(void)
{
#ifndef HEDDLE_PTHREAD_H
	SKIP("traces are heddle's");
#else
	const char *backend = getenv("HEDDLE_BACKEND");
	if (backend && strcmp(backend, "native") == 0)
		SKIP("the native backend's threads are not scheduled by heddle");
	char path[] = "/tmp/heddle-trace-XXXXXX";
	int fd = mkstemp(path);
	CHECK(fd >= 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct heddle_config config = { .size_bytes = sizeof config, .trace_file = path };
		CHECK_EQ(heddle_configure(&config), 0);
		pthread_t a = start_thread(yields, NULL), b = start_thread(yields, NULL);
		join_thread(a);
		join_thread(b);
		/* Workers write what they have collected when they run out of work. */
		for (long end = now_ms() + 40000; !has(path, "\"ph\"") && now_ms() < end;)
			sleep_ms(10);
		exit(0);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	close(fd);
	CHECK(has(path, "\"ph\""));
	CHECK_EQ(unlink(path), 0);
	return 0;
#endif
}
