// What the source of events and those who react to them share: FIFOs and the experiment's stage.
#ifndef HEDDLE_BENCH_EVENTS_H
#define HEDDLE_BENCH_EVENTS_H

#include <fcntl.h>
#include <sys/mman.h>

#include "../c/common.h"

enum { EVENT_THREADS_MAX = 64 };
// The first byte of the file `stage`, which begins as 0.
enum { STAGE_READY = 1, STAGE_STOP = 2 };

// Open for both directions, so that neither side waits for the other to open.
static inline int open_events(const char *folder, long thread)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof path, "%s/event.%ld", folder, thread);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die(path, errno);
	return fd;
}

static inline volatile char *map_stage(const char *folder)
{
	char path[4096];
	void *at;
	int fd;

	snprintf(path, sizeof path, "%s/stage", folder);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die(path, errno);
	at = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die(path, errno);
	return at;
}

#endif
