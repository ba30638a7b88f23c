/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Attributes by the program's word; with an argument, as it is without the library. */
#define _GNU_SOURCE
#include "own_table.h"

#include <heddle/pthread_np.h>

#include <sched.h>
#include <semaphore.h>
#include <sys/prctl.h>

/* Each thread ends by a semaphore of its own: a post may wake any that waits. */
static sem_t begun, done, second_done;

static void *waits(void *argument)
{
	sem_post(&begun);
	sem_wait(argument);
	return NULL;
}

static const struct heddle_attributes gas = {
	.size_bytes = sizeof(gas),
	.thread_class = HEDDLE_TIME_CRITICAL,
	.priority = 20,
	.group = HEDDLE_GROUP_URGENT,
	.category = HEDDLE_CATEGORY_EVENT,
	.role = "gas detection",
};

static void refused(void)
{
	struct heddle_attributes wrong = gas;

	wrong.priority = 0;
	CHECK_EQUAL(pthread_setattributes_np(pthread_self(), &wrong), EINVAL);
	wrong = gas;
	wrong.size_bytes--;
	CHECK_EQUAL(pthread_setattributes_np(pthread_self(), &wrong), EINVAL);
	CHECK_EQUAL(pthread_getattributes_np(pthread_self(), &wrong), EINVAL);
	wrong = gas;
	wrong.group = 4;
	CHECK_EQUAL(pthread_setattributes_np(pthread_self(), &wrong), EINVAL);
	memset(wrong.role, 'x', sizeof(wrong.role));
	wrong.group = 0;
	CHECK_EQUAL(pthread_setattributes_np(pthread_self(), &wrong), EINVAL);
}

static void own(void)
{
	struct heddle_attributes read = {.size_bytes = sizeof(read)}, more = gas;

	CHECK_EQUAL(pthread_setattributes_np(pthread_self(), &gas), 0);
	more.role[0] = 0;
	more.priority = 21;
	CHECK_EQUAL(pthread_setattributes_np(pthread_self(), &more), 0);
	CHECK_EQUAL(pthread_getattributes_np(pthread_self(), &read), 0);
	CHECK_EQUAL(read.priority, 21);
	CHECK_EQUAL(read.thread_class, HEDDLE_TIME_CRITICAL);
	CHECK_EQUAL(read.category, HEDDLE_CATEGORY_EVENT);
	CHECK(!strcmp(read.role, "gas detection"));
}

static void by_policy(const char *table, pthread_t thread)
{
	struct sched_param param = {.sched_priority = 30};
	const struct heddle_record *record = table_record(table, 1);
	int policy = 0;

	CHECK_EQUAL(pthread_setschedparam(thread, SCHED_HEDDLE, &param), 0);
	CHECK_EQUAL(record->thread_class, HEDDLE_CLASS_TIME_CRITICAL);
	CHECK_EQUAL(record->priority, 30);
	CHECK_EQUAL(pthread_setschedprio(thread, 31), 0);
	CHECK_EQUAL(record->priority, 31);
	CHECK_EQUAL(pthread_getschedparam(thread, &policy, &param), 0);
	CHECK_EQUAL(policy, SCHED_HEDDLE);
	CHECK_EQUAL(param.sched_priority, 31);
	param.sched_priority = 100;
	CHECK_EQUAL(pthread_setschedparam(thread, SCHED_HEDDLE, &param), EINVAL);
	param.sched_priority = 0;
	CHECK_EQUAL(pthread_setschedparam(thread, SCHED_HEDDLE, &param), 0);
	CHECK_EQUAL(record->thread_class, HEDDLE_CLASS_LAZY);
	CHECK_EQUAL(syscall(SYS_sched_getscheduler, record->tid) & ~0x40000000, SCHED_OTHER);
	CHECK_EQUAL(pthread_setschedparam(thread, 4711, &param), EINVAL);
	/* A policy of the kernel's ends the class, too. */
	param.sched_priority = 32;
	CHECK_EQUAL(pthread_setschedparam(thread, SCHED_HEDDLE, &param), 0);
	param.sched_priority = 0;
	CHECK_EQUAL(pthread_setschedparam(thread, SCHED_BATCH, &param), 0);
	CHECK_EQUAL(record->thread_class, HEDDLE_CLASS_LAZY);
	CHECK_EQUAL(record->priority, 0);
	CHECK_EQUAL(record->policy, SCHED_BATCH);
	CHECK_EQUAL(pthread_getschedparam(thread, &policy, &param), 0);
	CHECK_EQUAL(policy, SCHED_BATCH);
	CHECK_EQUAL(syscall(SYS_sched_getscheduler, record->tid) & ~0x40000000, SCHED_BATCH);
}

static void by_attribute(const char *table)
{
	struct sched_param param = {.sched_priority = 40};
	const struct heddle_record *record;
	pthread_attr_t attributes;
	pthread_t thread;
	int policy;

	pthread_attr_init(&attributes);
	CHECK_EQUAL(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED), 0);
	CHECK_EQUAL(pthread_attr_setschedpolicy(&attributes, SCHED_HEDDLE), 0);
	CHECK_EQUAL(pthread_attr_setschedparam(&attributes, &param), 0);
	CHECK_EQUAL(pthread_attr_getschedpolicy(&attributes, &policy), 0);
	CHECK_EQUAL(policy, SCHED_HEDDLE);
	CHECK_EQUAL(pthread_create(&thread, &attributes, waits, &second_done), 0);
	sem_wait(&begun);
	record = table_record(table, 2);
	CHECK_EQUAL(record->thread_class, HEDDLE_CLASS_TIME_CRITICAL);
	CHECK_EQUAL(record->priority, 40);
	/* Still as the program left it. */
	CHECK_EQUAL(pthread_attr_getschedpolicy(&attributes, &policy), 0);
	CHECK_EQUAL(policy, SCHED_HEDDLE);
	CHECK_EQUAL(pthread_attr_setschedpolicy(&attributes, SCHED_OTHER), 0);
	pthread_attr_destroy(&attributes);
	sem_post(&second_done);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

static void with_library(void)
{
	struct heddle_attributes read = {.size_bytes = sizeof(read)};
	const struct heddle_record *record;
	const char *table;
	pthread_t thread;

	table = table_map();
	CHECK(table);
	CHECK_EQUAL(table_record(table, 0)->priority, 21);
	CHECK_EQUAL(pthread_create(&thread, NULL, waits, &done), 0);
	/* At once, whether it has begun or not. */
	CHECK_EQUAL(pthread_setname_np(thread, "worker 1"), 0);
	CHECK_EQUAL(pthread_setattributes_np(thread, &gas), 0);
	sem_wait(&begun);
	record = table_record(table, 1);
	CHECK(!strcmp(table_text(table, record->name), "worker 1"));
	CHECK_EQUAL(record->thread_class, HEDDLE_CLASS_TIME_CRITICAL);
	CHECK_EQUAL(record->priority, 20);
	CHECK_EQUAL(pthread_getattributes_np(thread, &read), 0);
	CHECK(!strcmp(read.role, "gas detection"));
	CHECK_EQUAL(table_use(table, 1)->priority, 20);
	CHECK(!strcmp(table_text(table, table_use(table, 1)->name), "worker 1"));
	by_policy(table, thread);
	by_attribute(table);
	CHECK_EQUAL(prctl(PR_SET_NAME, "the first thread of all", 0, 0, 0), 0);
	CHECK(!strcmp(table_text(table, table_record(table, 0)->name), "the first threa"));
	sem_post(&done);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

int main(int count, char **arguments)
{
	(void)arguments;
	sem_init(&begun, 0, 0);
	sem_init(&done, 0, 0);
	sem_init(&second_done, 0, 0);
	refused();
	own();
	if (count == 1)
		with_library();
	return 0;
}
