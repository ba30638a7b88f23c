/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * pop(1) runs the handler, pop(0) only removes it, and the latest pushed comes first.
 */
#define _GNU_SOURCE
#include "check.h"

static char order[8];

static void note(void *arg)
{
	strcat(order, arg);
}

int main(void)
{
	pthread_cleanup_push(note, "a");
	pthread_cleanup_push(note, "b");
	pthread_cleanup_push(note, "c");
	pthread_cleanup_pop(1);
	CHECK_EQ(strcmp(order, "c"), 0);
	pthread_cleanup_pop(0);
	CHECK_EQ(strcmp(order, "c"), 0);
	pthread_cleanup_pop(1);
	CHECK_EQ(strcmp(order, "ca"), 0);
	return 0;
}
