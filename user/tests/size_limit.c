/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A write past the limit of a file's size raises SIGXFSZ in the thread that made it, and fails with
 * EFBIG; one that comes to the limit says how much it wrote. By default the process ends.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { LIMIT = 8192 };

static pthread_t expected;
static int handled, elsewhere, file;
static char bytes[3 * LIMIT];

static void on_limit(int number)
{
	(void)number;
	add_value(pthread_equal(pthread_self(), expected) ? &handled : &elsewhere, 1);
}

static void raises(long result)
{
	CHECK_EQ(result, -1);
	CHECK_EQ(errno, EFBIG);
	await_value(&handled, 1);
	sleep_ms(5);
	CHECK_EQ(handled, 1);
	handled = 0;
}

/* In the thread: who makes one may have to write something of its own. */
static void limit(void)
{
	struct rlimit limit = { LIMIT, RLIM_INFINITY };

	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void *writes(void *arg)
{
	FILE *stream;

	limit();
	expected = pthread_self();
	CHECK_EQ(write(file, bytes, sizeof bytes), LIMIT);
	CHECK_EQ(handled, 0);
	raises(write(file, bytes, 1));
	CHECK_EQ(pwrite(file, bytes, sizeof bytes, LIMIT / 2), LIMIT / 2);
	CHECK_EQ(handled, 0);
	raises(pwrite(file, bytes, 1, LIMIT));
	raises(ftruncate(file, LIMIT + 1));
	errno = EFBIG;
	CHECK_EQ(posix_fallocate(file, LIMIT, 1), EFBIG);
	raises(-1);
	stream = fdopen(dup(file), "a");
	CHECK(stream);
	setvbuf(stream, NULL, _IONBF, 0);
	raises(fputs("x", stream));
	fclose(stream);
	CHECK_EQ(lseek(file, 0, SEEK_END), LIMIT);
	return arg;
}

static void *dies(void *arg)
{
	limit();
	CHECK_EQ(write(file, bytes, sizeof bytes), LIMIT);
	write(file, bytes, 1);
	sleep_ms(5000);
	return arg;
}

static void by_default(void)
{
	struct rlimit none = { 0, 0 };
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		CHECK_EQ(setrlimit(RLIMIT_CORE, &none), 0);
		join_thread(start_thread(dies, NULL));
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGXFSZ);
	CHECK_EQ(ftruncate(file, 0), 0);
	CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
}

/* So that the other one has its worker not for itself. */
static void *stays(void *until)
{
	CHECK_EQ(sem_wait(until), 0);
	return NULL;
}

int main(void)
{
	sem_t until;
	char path[] = "/tmp/heddle-limit-XXXXXX";

	file = mkstemp(path);
	CHECK(file >= 0);
	CHECK_EQ(unlink(path), 0);
	by_default();
	CHECK(signal(SIGXFSZ, on_limit) != SIG_ERR);
	CHECK_EQ(sem_init(&until, 0, 0), 0);
	pthread_t beside = start_thread(stays, &until);
	join_thread(start_thread(writes, NULL));
	CHECK_EQ(sem_post(&until), 0);
	join_thread(beside);
	CHECK_EQ(elsewhere, 0);
	return 0;
}
