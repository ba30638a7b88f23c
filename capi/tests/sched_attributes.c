/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * TEK's attributes of a thread can be set and read, before and after it is created.
 */
#define _GNU_SOURCE
#include "check.h"

#ifdef HEDDLE_PTHREAD_H
static sem_t gate;

static void *wait_at_gate(void *arg)
{
	sem_wait(&gate);
	return arg;
}
#endif

int main(void)
{
#ifndef HEDDLE_PTHREAD_H
	SKIP("thread attributes are heddle's");
#else
	struct heddle_attributes want = { .size_bytes = sizeof want,
					  .thread_class = HEDDLE_TIME_CRITICAL,
					  .priority = 12,
					  .group = HEDDLE_GROUP_URGENT,
					  .category = HEDDLE_CATEGORY_DRAWING,
					  .role = "gas detection" };
	struct heddle_attributes got = { .size_bytes = sizeof got };
	pthread_attr_t attr;
	pthread_t thread;
	sem_init(&gate, 0, 0);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(heddle_attr_setattributes_np(&attr, &want), 0);
	CHECK_EQ(heddle_attr_getattributes_np(&attr, &got), 0);
	CHECK_EQ(strcmp(got.role, "gas detection"), 0);
	CHECK_EQ(pthread_create(&thread, &attr, wait_at_gate, NULL), 0);
	memset(&got, 0, sizeof got);
	got.size_bytes = sizeof got;
	CHECK_EQ(heddle_getattributes_np(thread, &got), 0);
	CHECK_EQ(got.thread_class, HEDDLE_TIME_CRITICAL);
	CHECK_EQ(got.priority, 12);
	CHECK_EQ(got.group, HEDDLE_GROUP_URGENT);
	CHECK_EQ(got.category, HEDDLE_CATEGORY_DRAWING);
	CHECK_EQ(strcmp(got.role, "gas detection"), 0);

	want.thread_class = HEDDLE_LAZY;
	want.priority = 0;
	want.group = HEDDLE_GROUP_BACKGROUND;
	want.category = HEDDLE_CATEGORY_NONE;
	strcpy(want.role, "archive");
	CHECK_EQ(heddle_setattributes_np(thread, &want), 0);
	CHECK_EQ(heddle_getattributes_np(thread, &got), 0);
	CHECK_EQ(got.thread_class, HEDDLE_LAZY);
	CHECK_EQ(got.priority, 0);
	CHECK_EQ(got.group, HEDDLE_GROUP_BACKGROUND);
	CHECK_EQ(strcmp(got.role, "archive"), 0);
	/* An empty role leaves the role. */
	want.role[0] = 0;
	CHECK_EQ(heddle_setattributes_np(thread, &want), 0);
	CHECK_EQ(heddle_getattributes_np(thread, &got), 0);
	CHECK_EQ(strcmp(got.role, "archive"), 0);

	want.group = 9;
	CHECK_EQ(heddle_setattributes_np(thread, &want), EINVAL);
	want.group = HEDDLE_GROUP_NORMAL;
	want.priority = 5;
	CHECK_EQ(heddle_setattributes_np(thread, &want), EINVAL);
	want.priority = 0;
	want.thread_class = 7;
	CHECK_EQ(heddle_setattributes_np(thread, &want), EINVAL);
	want.thread_class = HEDDLE_LAZY;
	want.category = -1;
	CHECK_EQ(heddle_attr_setattributes_np(&attr, &want), EINVAL);
	want.category = 0;
	want.size_bytes = 3;
	CHECK_EQ(heddle_setattributes_np(thread, &want), EINVAL);
	sem_post(&gate);
	join_thread(thread);
	return 0;
#endif
}
