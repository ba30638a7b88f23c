/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * pthread_exit runs the handlers that are pushed, across frames, latest first.
 */
#define _GNU_SOURCE
#include "check.h"

static char order[8];

static void note(void *arg)
{
	strcat(order, arg);
}

static void inner(void)
{
	pthread_cleanup_push(note, "3");
	pthread_cleanup_push(note, "4");
	pthread_cleanup_pop(0);
	pthread_exit((void *)1);
	pthread_cleanup_pop(0);
}

static void *outer(void *arg)
{
	pthread_cleanup_push(note, "1");
	pthread_cleanup_push(note, "2");
	inner();
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return arg;
}

int main(void)
{
	CHECK_EQ((intptr_t)join_thread(start_thread(outer, NULL)), 1);
	CHECK_EQ(strcmp(order, "321"), 0);
	return 0;
}
