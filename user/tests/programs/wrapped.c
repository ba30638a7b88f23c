/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls each function that wraps.c has once in a thread and says how many of the calls that one
 * has seen, and of which sort the thread is.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int wraps_count(void) __attribute__((weak));

static int listener;
static struct sockaddr_in address = { .sin_family = AF_INET };
static sem_t semaphore;

static void *calls(void *arg)
{
	const struct timespec moment = { 0, 1000000 };
	struct pollfd entry;
	char bytes[8];
	int ok = 1;

	wraps_count();
	int client = socket(AF_INET, SOCK_STREAM, 0);
	ok &= connect(client, (struct sockaddr *)&address, sizeof(address)) == 0;
	int server = accept(listener, NULL, NULL);
	ok &= write(client, "bytes", 5) == 5;
	entry = (struct pollfd){ .fd = server, .events = POLLIN };
	ok &= poll(&entry, 1, -1) == 1;
	ok &= read(server, bytes, sizeof(bytes)) == 5;
	ok &= nanosleep(&moment, NULL) == 0;
	ok &= sem_wait(&semaphore) == 0;
	printf("%d seen, %s, on %s threads\n", wraps_count(), ok ? "right" : "wrong",
	       gettid() > 1 << 29 ? "user-level" : "kernel");
	return arg;
}

int main(void)
{
	socklen_t bytes = sizeof(address);
	pthread_t thread;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &bytes) || sem_init(&semaphore, 0, 1))
		return 1;
	if (pthread_create(&thread, NULL, calls, NULL) || pthread_join(thread, NULL))
		return 2;
	return 0;
}
