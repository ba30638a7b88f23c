// How much memory this process holds: resident pages plus the page tables that map them.
#ifndef HEDDLE_BENCH_MEMORY_H
#define HEDDLE_BENCH_MEMORY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline double memory_bytes(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	double kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "VmRSS:", 6) || !strncmp(line, "VmPTE:", 6))
			kib += atof(line + 6);
	if (f)
		fclose(f);
	return kib * 1024;
}

static inline long vma_count(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	long lines = 0;
	int c;

	while (f && (c = getc(f)) != EOF)
		lines += c == '\n';
	if (f)
		fclose(f);
	return lines;
}

// Thread counts at which `parked` reports the time used so far: 1, 2 and 5 in each decade.
static inline long next_checkpoint(long at)
{
	long decade = 1;

	while (decade * 10 <= at)
		decade *= 10;
	if (at < 2 * decade)
		return 2 * decade;
	return at < 5 * decade ? 5 * decade : 10 * decade;
}

#endif
