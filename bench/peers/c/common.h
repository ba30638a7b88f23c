// What the C peers share: clocks, argument checks, dying with a reason.
//
// Protocol of every peer (see bench/README.md):
//   PEER METRIC OPS THREADS     prints lines "name value"
//   PEER echo PORT WORKERS      serves until killed
//   PEER http PORT WORKERS DIR  serves DIR/index.html until killed
// Exit 77 with one line on stderr: this peer has no such metric, and why.
#ifndef HEDDLE_BENCH_COMMON_H
#define HEDDLE_BENCH_COMMON_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { EXIT_NOT_OFFERED = 77 };

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static inline _Noreturn void die(const char *what, int error)
{
	fprintf(stderr, "%s: %s\n", what, strerror(error));
	exit(1);
}

static inline long number(const char *text, long low, long high)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*text == 0 || *end != 0 || value < low || value > high) {
		fprintf(stderr, "not a number in %ld..%ld: %s\n", low, high, text);
		exit(2);
	}
	return value;
}

// Thousands of sockets need the descriptors that the hard limit grants.
static inline void raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		die("getrlimit", errno);
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		die("setrlimit RLIMIT_NOFILE", errno);
}

#endif
