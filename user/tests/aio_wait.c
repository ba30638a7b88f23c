/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Waits for asynchronous input: handlers interrupt aio_suspend and lio_listio, as their flags ask
 * for; aio_suspend is a point of cancellation, and lio_listio none. A timeout is counted once.
 */
#define _GNU_SOURCE
#include "check.h"
#include <aio.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>

static int ends[2];
static struct aiocb request;
static char byte;
static sem_t inside, handled, cleaned;

static void handler(int signal)
{
	(void)signal;
	CHECK_EQ(sem_post(&handled), 0);
}

static void cleanup(void *arg)
{
	CHECK_EQ(sem_post(arg), 0);
}

static void handle(int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

static void prepare(void)
{
	memset(&request, 0, sizeof request);
	request.aio_fildes = ends[0];
	request.aio_buf = &byte;
	request.aio_nbytes = 1;
	request.aio_lio_opcode = LIO_READ;
}

static void ask(void)
{
	prepare();
	CHECK_EQ(aio_read(&request), 0);
}

static void answer(void)
{
	CHECK_EQ(write(ends[1], "x", 1), 1);
}

static void is_answered(void)
{
	CHECK_EQ(aio_error(&request), 0);
	CHECK_EQ(aio_return(&request), 1);
}

static int suspended(const struct timespec *timeout)
{
	const struct aiocb *list[] = { NULL, &request };

	return aio_suspend(list, 2, timeout);
}

static void *is_interrupted(void *timeout)
{
	CHECK_EQ(sem_post(&inside), 0);
	CHECK_ERRNO(suspended(timeout), EINTR);
	return NULL;
}

static void *goes_on(void *arg)
{
	CHECK_EQ(sem_post(&inside), 0);
	CHECK_EQ(suspended(NULL), 0);
	is_answered();
	/* What is done needs no wait. */
	CHECK_EQ(suspended(NULL), 0);
	return arg;
}

static void *is_cancelled(void *arg)
{
	pthread_cleanup_push(cleanup, &cleaned);
	CHECK_EQ(sem_post(&inside), 0);
	suspended(NULL);
	CHECK(false);
	pthread_cleanup_pop(0);
	return arg;
}

static void *lists(void *expected)
{
	struct aiocb none = { .aio_lio_opcode = LIO_NOP };
	struct aiocb *list[] = { &none, NULL, &request };

	prepare();
	CHECK_EQ(sem_post(&inside), 0);
	if (expected)
		CHECK_ERRNO(lio_listio(LIO_WAIT, list, 3, NULL), EINTR);
	else
		CHECK_EQ(lio_listio(LIO_WAIT, list, 3, NULL), 0);
	CHECK_EQ(sem_post(&cleaned), 0);
	return NULL;
}

static void *lists_nothing(void *arg)
{
	struct aiocb wrong = { .aio_fildes = -1, .aio_nbytes = 1, .aio_lio_opcode = LIO_READ };
	struct aiocb refused = { .aio_reqprio = 999, .aio_lio_opcode = LIO_READ };
	struct aiocb taken = { .aio_fildes = open("/dev/null", O_RDONLY),
			       .aio_lio_opcode = LIO_READ };
	struct aiocb *list[] = { &wrong }, *both[] = { &refused, NULL, &taken };

	CHECK_ERRNO(lio_listio(LIO_WAIT, list, 1, NULL), EIO);
	CHECK_EQ(aio_error(&wrong), EBADF);
	CHECK_ERRNO(lio_listio(LIO_WAIT, both, 3, NULL), EIO);
	CHECK_EQ(aio_error(&refused), EINVAL);
	CHECK_EQ(aio_error(&taken), 0);
	CHECK_EQ(lio_listio(LIO_WAIT, list, 0, NULL), 0);
	CHECK_ERRNO(lio_listio(77, list, 0, NULL), EINVAL);
	CHECK_ERRNO(suspended(&(struct timespec){ 0, 20000000 }), EAGAIN);
	return arg;
}

static pthread_t started(void *(*function)(void *), void *arg)
{
	pthread_t thread = start_thread(function, arg);

	CHECK_EQ(sem_wait(&inside), 0);
	sleep_ms(30);
	return thread;
}

static void interrupted(void *(*function)(void *), void *arg)
{
	pthread_t thread = started(function, arg);

	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	CHECK_EQ(sem_wait(&handled), 0);
	join_thread(thread);
}

static void restarted(void *(*function)(void *))
{
	pthread_t thread = started(function, NULL);

	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	CHECK_EQ(sem_wait(&handled), 0);
	sleep_ms(20);
	answer();
	join_thread(thread);
}

static void cancelled(void)
{
	pthread_t thread = started(is_cancelled, NULL);
	void *result;

	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_EQ(sem_trywait(&cleaned), 0);
}

static void not_cancelled(void)
{
	pthread_t thread = started(lists, NULL);

	CHECK_EQ(pthread_cancel(thread), 0);
	sleep_ms(20);
	CHECK_EQ(sem_trywait(&cleaned), -1);
	answer();
	CHECK_EQ(sem_wait(&cleaned), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	is_answered();
}

int main(void)
{
	static struct timespec long_time = { 1000, 0 };

	CHECK_EQ(sem_init(&inside, 0, 0), 0);
	CHECK_EQ(sem_init(&handled, 0, 0), 0);
	CHECK_EQ(sem_init(&cleaned, 0, 0), 0);
	CHECK_EQ(pipe(ends), 0);
	handle(0);
	ask();
	interrupted(is_interrupted, NULL);
	join_thread(start_thread(lists_nothing, NULL));
	handle(SA_RESTART);
	interrupted(is_interrupted, &long_time);
	cancelled();
	restarted(goes_on);
	restarted(lists);
	is_answered();
	CHECK_EQ(sem_wait(&cleaned), 0);
	not_cancelled();
	handle(0);
	interrupted(lists, &inside);
	/* Nothing may be read any more: of such a call the C library keeps what was on its stack. */
	_exit(0);
}
