/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * resident.h - how much memory of the process is resident.
 */
#ifndef RESIDENT_H
#define RESIDENT_H

#include "check.h"

static long resident_kb(void)
{
	long kb = -1;
	char line[256];
	FILE *status = fopen("/proc/self/status", "r");
	CHECK(status);
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "VmRSS: %ld", &kb) == 1)
			break;
	fclose(status);
	CHECK(kb > 0);
	return kb;
}

#endif
