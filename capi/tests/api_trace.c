/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * heddle_configure names a file for a trace of the run, which fills while the process runs.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/wait.h>

#ifdef HEDDLE_PTHREAD_H
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
	char path[] = "/tmp/heddle-trace-XXXXXX", text[4096] = "";
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
		sleep_ms(100);
		exit(0);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	/* The file may have been replaced: open it anew. */
	close(fd);
	FILE *file = fopen(path, "r");
	CHECK(file != NULL);
	CHECK(fread(text, 1, sizeof text - 1, file) > 0);
	fclose(file);
	CHECK_EQ(unlink(path), 0);
	CHECK(strstr(text, "\"ph\"") != NULL);
	return 0;
#endif
}
