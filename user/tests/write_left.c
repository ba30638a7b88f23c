/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The handler of what a write raises, SIGPIPE or SIGXFSZ, may leave the write by a jump, and may
 * wait for another thread that writes to the same descriptor: who writes there later, also when the
 * number is another file's, goes on.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>

#include "check.h"

enum { PIPE, PIPE_AGAIN, FILE_BUFFERED, FILE_SYNC };
/* More than this program writes otherwise. */
enum { SIZE_LIMIT = 1 << 20 };

static _Thread_local sigjmp_buf before;
static int ends[2], file = -1, asked, answered;

static void jumps(int number)
{
	(void)number;
	siglongjmp(before, 1);
}

static void asks(int number)
{
	(void)number;
	set_value(&asked, 1);
	await_value(&answered, 1);
}

static void *blocks(void *arg)
{
	sigset_t raised;

	sigemptyset(&raised);
	sigaddset(&raised, SIGPIPE);
	sigaddset(&raised, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &raised, NULL);
	return arg;
}

static void *is_left(void *arg)
{
	volatile int left = 0;

	if (sigsetjmp(before, 1) == 0)
		CHECK_EQ(write(*(int *)arg, "12345678", 8), -2);
	else
		left = 1;
	CHECK_EQ(left, 1);
	return NULL;
}

static void *writes_in_vain(void *arg)
{
	blocks(NULL);
	CHECK_ERRNO(write(*(int *)arg, "x", 1), arg == &file ? EFBIG : EPIPE);
	return NULL;
}

static void *writes(void *arg)
{
	CHECK_EQ(write(*(int *)arg, "x", 1), 1);
	return NULL;
}

static void leave(int which)
{
	char path[] = "/tmp/heddle-write-XXXXXX";
	int number;

	if (which == PIPE || which == PIPE_AGAIN) {
		CHECK_EQ(pipe(ends), 0);
		close(ends[0]);
		join_thread(start_thread(is_left, &ends[1]));
		if (which == PIPE_AGAIN) {
			number = ends[1];
			close(ends[1]);
			CHECK_EQ(pipe(ends), 0);
			CHECK_EQ(dup2(ends[1], number), number);
			join_thread(start_thread(writes, &number));
			close(number);
			close(ends[0]);
		} else {
			join_thread(start_thread(writes_in_vain, &ends[1]));
		}
		close(ends[1]);
		return;
	}
	file = mkostemp(path, which == FILE_SYNC ? O_SYNC : 0);
	CHECK(file >= 0);
	unlink(path);
	CHECK_EQ(lseek(file, SIZE_LIMIT - 16, SEEK_SET), SIZE_LIMIT - 16);
	CHECK_EQ(write(file, "12345678", 8), 8);
	CHECK_EQ(write(file, "12345678", 8), 8);
	join_thread(start_thread(is_left, &file));
	join_thread(start_thread(writes_in_vain, &file));
	CHECK_EQ(pwrite(file, "x", 1, 0), 1);
	close(file);
}

static void *answers(void *arg)
{
	blocks(NULL);
	await_value(&asked, 1);
	writes_in_vain(arg);
	set_value(&answered, 1);
	return NULL;
}

static void *asks_in_write(void *arg)
{
	CHECK_ERRNO(write(*(int *)arg, "y", 1), EPIPE);
	return NULL;
}

int main(void)
{
	struct rlimit limit;
	pthread_t one, other;

	signal(SIGPIPE, jumps);
	signal(SIGXFSZ, jumps);
	leave(PIPE);
	leave(PIPE_AGAIN);
	signal(SIGPIPE, asks);
	CHECK_EQ(pipe(ends), 0);
	close(ends[0]);
	other = start_thread(answers, &ends[1]);
	one = start_thread(asks_in_write, &ends[1]);
	join_thread(one);
	join_thread(other);
	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = SIZE_LIMIT;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	leave(FILE_BUFFERED);
	leave(FILE_SYNC);
	return 0;
}
