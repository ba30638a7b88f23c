/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread's name can be set and read by any thread; ERANGE for what does not fit.
 */
#define _GNU_SOURCE
#include "check.h"

static sem_t gate, ready;

static void *named(void *arg)
{
	char name[16];
	CHECK_EQ(pthread_setname_np(pthread_self(), "reader"), 0);
	CHECK_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
	CHECK_EQ(strcmp(name, "reader"), 0);
	sem_post(&ready);
	sem_wait(&gate);
	CHECK_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
	CHECK_EQ(strcmp(name, "fifteen letters"), 0);
	return arg;
}

int main(void)
{
	char name[16];
	sem_init(&gate, 0, 0);
	sem_init(&ready, 0, 0);
	pthread_t thread = start_thread(named, NULL);
	sem_wait(&ready);
	CHECK_EQ(pthread_getname_np(thread, name, sizeof name), 0);
	CHECK_EQ(strcmp(name, "reader"), 0);
	CHECK_EQ(pthread_setname_np(thread, "sixteen letters."), ERANGE);
	CHECK_EQ(pthread_getname_np(thread, name, 3), ERANGE);
	CHECK_EQ(pthread_setname_np(thread, "fifteen letters"), 0);
	sem_post(&gate);
	join_thread(thread);
	CHECK_EQ(pthread_setname_np(pthread_self(), "main too"), 0);
	CHECK_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
	CHECK_EQ(strcmp(name, "main too"), 0);
	return 0;
}
