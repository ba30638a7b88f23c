/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Makes threads while it is loaded and while it is closed, as libraries with a pool of them do.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *syncs(void *is_done)
{
	int file = open("/tmp", O_RDONLY);
	if (file < 0 || fsync(file) || close(file))
		abort();
	*(int *)is_done = 1;
	return NULL;
}

static void use_thread(void)
{
	pthread_t thread;
	int is_done = 0;
	if (pthread_create(&thread, NULL, syncs, &is_done) || pthread_join(thread, NULL) ||
	    !is_done)
		abort();
}

__attribute__((constructor)) static void begins(void)
{
	use_thread();
}

__attribute__((destructor)) static void ends(void)
{
	use_thread();
}
