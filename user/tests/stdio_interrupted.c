/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that waits in stdio runs handlers there: with SA_RESTART the call goes on, without it
 * fails with EINTR. A cancellation ends the wait, too, also where the thread does not look at what
 * its calls return.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>

static int pipe_ends[2];
static FILE *file;
static sem_t inside, handled, cleaned;
static pthread_t handled_by;

static void handler(int signal)
{
	(void)signal;
	handled_by = pthread_self();
	CHECK_EQ(sem_post(&handled), 0);
}

static void cleanup(void *arg)
{
	CHECK_EQ(sem_post(arg), 0);
}

static void *gets_line(void *arg)
{
	char text[8];

	CHECK_EQ(sem_post(&inside), 0);
	CHECK(fgets(text, sizeof text, file) == text);
	CHECK(strcmp(text, "x\n") == 0);
	return arg;
}

static void *is_interrupted(void *arg)
{
	char text[8];

	CHECK_EQ(sem_post(&inside), 0);
	CHECK(fgets(text, sizeof text, file) == NULL);
	CHECK_EQ(errno, EINTR);
	CHECK(ferror(file) && !feof(file));
	CHECK_EQ(sem_trywait(&handled), 0);
	CHECK(pthread_equal(handled_by, pthread_self()));
	clearerr(file);
	return arg;
}

static void *is_cancelled(void *arg)
{
	char text[8];

	pthread_cleanup_push(cleanup, &cleaned);
	CHECK_EQ(sem_post(&inside), 0);
	/* Where fgets itself does not end the thread the next call finds that it is cancelled. */
	for (int i = 0; i < 3; i++)
		(void)!fgets(text, sizeof text, file);
	pthread_testcancel();
	CHECK(false);
	pthread_cleanup_pop(0);
	return arg;
}

static void *writes(void *arg)
{
	CHECK_EQ(sem_post(&inside), 0);
	CHECK(fputs("x", arg) == EOF);
	CHECK_EQ(errno, EINTR);
	return arg;
}

static pthread_t started(void *(*function)(void *), void *arg)
{
	pthread_t thread = start_thread(function, arg);

	CHECK_EQ(sem_wait(&inside), 0);
	sleep_ms(20);
	return thread;
}

static void handle(int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

static void goes_on(void)
{
	pthread_t thread;

	handle(SA_RESTART);
	thread = started(gets_line, NULL);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	CHECK_EQ(sem_wait(&handled), 0);
	CHECK(pthread_equal(handled_by, thread));
	CHECK_EQ(write(pipe_ends[1], "x\n", 2), 2);
	join_thread(thread);
}

static void fails(void)
{
	pthread_t thread;

	handle(0);
	thread = started(is_interrupted, NULL);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	join_thread(thread);
}

static void ends(void)
{
	pthread_t thread = started(is_cancelled, NULL);
	void *result;

	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_EQ(sem_trywait(&cleaned), 0);
	/* The thread has left no lock behind. */
	clearerr(file);
}

static void fails_to_write(void)
{
	static const char bytes[4096];
	int full[2];
	pthread_t thread;
	FILE *to;

	handle(0);
	CHECK_EQ(pipe2(full, O_NONBLOCK), 0);
	while (write(full[1], bytes, sizeof bytes) > 0)
		;
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(fcntl(full[1], F_SETFL, 0), 0);
	to = fdopen(full[1], "w");
	CHECK(to);
	CHECK_EQ(setvbuf(to, NULL, _IONBF, 0), 0);
	thread = started(writes, to);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	join_thread(thread);
	CHECK_EQ(sem_wait(&handled), 0);
	CHECK_EQ(close(full[0]), 0);
	CHECK_EQ(fclose(to), 0);
}

int main(void)
{
	CHECK_EQ(sem_init(&inside, 0, 0), 0);
	CHECK_EQ(sem_init(&handled, 0, 0), 0);
	CHECK_EQ(sem_init(&cleaned, 0, 0), 0);
	CHECK_EQ(pipe(pipe_ends), 0);
	file = fdopen(pipe_ends[0], "r");
	CHECK(file);
	for (int i = 0; i < 5; i++) {
		goes_on();
		fails();
		ends();
		fails_to_write();
	}
	return 0;
}
