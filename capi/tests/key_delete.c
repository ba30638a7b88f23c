/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A deleted key is EINVAL, calls no destructor, and its slot starts empty for the next key.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_key_t key;
static sem_t gate, ready;

static void never(void *value)
{
	(void)value;
	CHECK(0);
}

static void *holds(void *arg)
{
	CHECK_EQ(pthread_setspecific(key, arg), 0);
	sem_post(&ready);
	sem_wait(&gate);
	return NULL;
}

int main(void)
{
	pthread_key_t next[32];
	sem_init(&gate, 0, 0);
	sem_init(&ready, 0, 0);
	CHECK_EQ(pthread_key_create(&key, never), 0);
	CHECK_EQ(pthread_setspecific(key, &key), 0);
	pthread_t thread = start_thread(holds, &key);
	sem_wait(&ready);
	CHECK_EQ(pthread_key_delete(key), 0);
	CHECK_EQ(pthread_key_delete(key), EINVAL);
	CHECK_EQ(pthread_setspecific(key, &key), EINVAL);
	CHECK(pthread_getspecific(key) == NULL);
	sem_post(&gate);
	join_thread(thread);
	for (int i = 0; i < 32; i++) {
		CHECK_EQ(pthread_key_create(&next[i], NULL), 0);
		CHECK(pthread_getspecific(next[i]) == NULL);
	}
	CHECK_EQ(pthread_setspecific(1u << 30, &key), EINVAL);
	CHECK(pthread_getspecific(1u << 30) == NULL);
	return 0;
}
