/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Who opens a named pipe whose other end is missing, by open, fopen or freopen, runs handlers
 * meanwhile: with SA_RESTART it waits on, without it fails with EINTR. A cancellation ends it, but
 * for a stream that is to be no point of cancellation.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

static char folder[] = "/tmp/heddle-fifo-XXXXXX";
static char path[64];
static int inside, handled, cleaned, opened;
static pthread_t handled_by;

/* Whether it was opened; it is closed again. */
static int by_open(void)
{
	int fd = open(path, O_RDONLY);
	return fd >= 0 && close(fd) == 0;
}

static int by_openat(void)
{
	int fd = openat(AT_FDCWD, path, O_RDONLY);
	return fd >= 0 && close(fd) == 0;
}

static int by_fopen(void)
{
	FILE *file = fopen(path, "r");
	return file != NULL && fclose(file) == 0;
}

static int by_fopen64(void)
{
	FILE *file = fopen64(path, "re");
	return file != NULL && fclose(file) == 0;
}

static int by_freopen(void)
{
	FILE *file = fopen("/dev/null", "r");
	CHECK(file != NULL);
	file = freopen(path, "r", file);
	return file != NULL && fclose(file) == 0;
}

static int (*const ways[])(void) = { by_open, by_openat, by_fopen, by_fopen64, by_freopen };

static void handler(int signal)
{
	(void)signal;
	handled_by = pthread_self();
	add_value(&handled, 1);
}

static void clean(void *arg)
{
	(void)arg;
	add_value(&cleaned, 1);
}

static void *opens(void *way)
{
	set_value(&inside, 1);
	CHECK(ways[(intptr_t)way]());
	set_value(&opened, 1);
	return way;
}

static void *is_interrupted(void *way)
{
	set_value(&inside, 1);
	CHECK(!ways[(intptr_t)way]());
	CHECK_EQ(errno, EINTR);
	CHECK(pthread_equal(handled_by, pthread_self()));
	set_value(&opened, 1);
	return way;
}

static void *is_cancelled(void *way)
{
	pthread_cleanup_push(clean, NULL);
	set_value(&inside, 1);
	ways[(intptr_t)way]();
	/* It is ended in there, and comes to no other point. */
	set_value(&opened, 1);
	pthread_cleanup_pop(0);
	return way;
}

static void *is_not_cancelled(void *arg)
{
	pthread_cleanup_push(clean, NULL);
	set_value(&inside, 1);
	FILE *file = fopen(path, "rc");
	set_value(&opened, file != NULL);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return arg;
}

static pthread_t started(void *(*function)(void *), size_t way)
{
	set_value(&inside, 0);
	set_value(&handled, 0);
	set_value(&cleaned, 0);
	set_value(&opened, 0);
	pthread_t thread = start_thread(function, (void *)way);
	await_value(&inside, 1);
	sleep_ms(10);
	return thread;
}

static void handle(int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

/* The other end, which lets who waits go. */
static void open_other(void)
{
	int fd = open(path, O_WRONLY);
	CHECK(fd >= 0);
	close(fd);
}

static void try_way(size_t way)
{
	handle(SA_RESTART);
	pthread_t thread = started(opens, way);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	await_value(&handled, 1);
	CHECK(pthread_equal(handled_by, thread));
	CHECK_EQ(__atomic_load_n(&opened, __ATOMIC_SEQ_CST), 0);
	open_other();
	join_thread(thread);
	CHECK_EQ(opened, 1);

	handle(0);
	thread = started(is_interrupted, way);
	/* The first may come before the call. */
	while (!__atomic_load_n(&opened, __ATOMIC_SEQ_CST)) {
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		sleep_ms(5);
	}
	join_thread(thread);

	thread = started(is_cancelled, way);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(opened, 0);
	CHECK_EQ(cleaned, 1);
}

int main(void)
{
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/fifo", folder);
	CHECK_EQ(mkfifo(path, 0600), 0);
	for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
		try_way(way);
	pthread_t thread = started(is_not_cancelled, 0);
	CHECK_EQ(pthread_cancel(thread), 0);
	sleep_ms(20);
	CHECK_EQ(__atomic_load_n(&cleaned, __ATOMIC_SEQ_CST), 0);
	open_other();
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(cleaned, 1);
	CHECK_EQ(opened, 1);
	unlink(path);
	rmdir(folder);
	return 0;
}
