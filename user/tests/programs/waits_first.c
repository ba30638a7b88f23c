/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Waits before it makes its first thread: by the main thread, or, with an argument, by one that
 * the C library makes for a timer. Tells what became of the table of its threads meanwhile, which
 * has the process's number, or is put aside. Then it makes a thread of its own.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int has_waited;

static void wait_for_a_moment(void)
{
	struct timespec until;

	pthread_mutex_lock(&lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	pthread_cond_timedwait(&never, &lock, &until);
	has_waited = 1;
	pthread_mutex_unlock(&lock);
}

static void notified(union sigval value)
{
	(void)value;
	wait_for_a_moment();
}

static void *own_thread(void *arg)
{
	usleep(1000);
	return arg;
}

static ino_t table(const char *behind)
{
	struct stat status;
	char path[64];

	snprintf(path, sizeof(path), "/dev/shm/heddle.%d%s", getpid(), behind);
	return stat(path, &status) ? 0 : status.st_ino;
}

int main(int count, char **words)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = notified };
	struct itimerspec once = { .it_value.tv_nsec = 1000000 };
	ino_t before = table("");
	pthread_t thread;
	timer_t timer;

	(void)words;
	if (count > 1) {
		if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &once, NULL))
			return 1;
		while (!__atomic_load_n(&has_waited, __ATOMIC_ACQUIRE))
			usleep(1000);
	} else {
		wait_for_a_moment();
	}
	if (!before)
		puts("no table");
	else if (table("") == before || table(".account") == before)
		puts("kept");
	else
		puts("lost");
	if (pthread_create(&thread, NULL, own_thread, NULL) || pthread_join(thread, NULL))
		return 1;
	return 0;
}
