/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Where stdio reads or writes a thread is cancelled: while it waits there, and where it comes there
 * afterwards, though it never waits. Its stream's lock is free then, and the handlers have run.
 * What reads and writes nothing is no such point; nor is it one while cancellation is disabled.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <wchar.h>

enum { BYTES = 1 << 16 };

static sem_t inside, cleaned;
static volatile int go;
static char bytes[BYTES];

static void cleanup(void *arg)
{
	(void)arg;
	CHECK_EQ(sem_post(&cleaned), 0);
}

/* ---- one call each, which waits */

static void by_fgets(FILE *file) { char text[8]; CHECK(!fgets(text, sizeof text, file)); }
static void by_fread(FILE *file) { char text[8]; (void)!fread(text, 1, sizeof text, file); }
static void by_getc(FILE *file) { (void)getc(file); }
static void by_fscanf(FILE *file) { int number; (void)!fscanf(file, "%d", &number); }
static void by_getwc(FILE *file) { (void)getwc(file); }

static void by_getline(FILE *file)
{
	static char *line;
	static size_t room;
	(void)!getline(&line, &room, file);
}

static void by_fprintf(FILE *file) { fprintf(file, "%d %s", 1, bytes); }
static void by_fwrite(FILE *file) { (void)!fwrite(bytes, 1, sizeof bytes, file); }
static void by_fputs(FILE *file) { fputs(bytes, file); }
static void by_vfprintf_wide(FILE *file) { fwprintf(file, L"%d", 1); fflush(file); }

static void by_putc(FILE *file)
{
	for (int i = 0; i < BYTES; i++)
		putc('x', file);
}

static void by_fflush(FILE *file)
{
	fputs("x", file);
	fflush(file);
}

static void by_fflush_all(FILE *file)
{
	fputs("x", file);
	fflush(NULL);
}

struct call {
	void (*call)(FILE *file);
	bool writes, is_unbuffered;
};

static const struct call calls[] = {
	{ by_fgets, false, false }, { by_fread, false, false }, { by_getc, false, false },
	{ by_fscanf, false, false }, { by_getwc, false, false }, { by_getline, false, false },
	{ by_getc, false, true }, { by_fprintf, true, false }, { by_fprintf, true, true },
	{ by_fwrite, true, false }, { by_fputs, true, false }, { by_fputs, true, true },
	{ by_vfprintf_wide, true, false }, { by_putc, true, false }, { by_fflush, true, false },
	{ by_fflush_all, true, false },
};

struct task {
	const struct call *call;
	FILE *file;
};

static void *waits(void *arg)
{
	struct task *task = arg;

	CHECK_EQ(sem_post(&inside), 0);
	while (!go)
		;
	task->call->call(task->file);
	CHECK(false);
	return arg;
}

/* The C library comes to such a handler by a jump, and leaves its own frames in another way. */
static void *waits_with_handler(void *arg)
{
	pthread_cleanup_push(cleanup, NULL);
	waits(arg);
	pthread_cleanup_pop(0);
	return arg;
}

/* A stream of a pipe in which whoever uses it waits, and the other end. */
static FILE *stream(const struct call *call, int *other)
{
	int ends[2];
	FILE *file;

	CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
	if (call->writes)
		while (write(ends[1], bytes, 4096) > 0)
			;
	for (int i = 0; i < 2; i++)
		CHECK_EQ(fcntl(ends[i], F_SETFL, 0), 0);
	file = fdopen(ends[call->writes], call->writes ? "w" : "r");
	CHECK(file);
	if (call->is_unbuffered)
		CHECK_EQ(setvbuf(file, NULL, _IONBF, 0), 0);
	*other = ends[!call->writes];
	return file;
}

static void cancelled(const struct call *call, bool is_first, bool has_handler)
{
	int other;
	struct task task = { call, stream(call, &other) };
	pthread_t thread;
	void *result;

	go = !is_first;
	thread = start_thread(has_handler ? waits_with_handler : waits, &task);
	CHECK_EQ(sem_wait(&inside), 0);
	if (!is_first)
		sleep_ms(20);
	CHECK_EQ(pthread_cancel(thread), 0);
	go = 1;
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_EQ(sem_trywait(&cleaned), has_handler ? 0 : -1);
	CHECK_EQ(ftrylockfile(task.file), 0);
	CHECK(!ferror(task.file) && !feof(task.file));
	funlockfile(task.file);
	CHECK_EQ(close(other), 0);
	/* What is left cannot be written any more. */
	fclose(task.file);
	CHECK_EQ(fflush(NULL), 0);
}

/* ---- calls that never wait */

static void *writes_on(void *arg)
{
	pthread_cleanup_push(cleanup, NULL);
	CHECK_EQ(sem_post(&inside), 0);
	for (;;)
		fprintf(arg, "some %s", "text");
	pthread_cleanup_pop(0);
	return arg;
}

static void *reads_on(void *arg)
{
	char text[64];

	pthread_cleanup_push(cleanup, NULL);
	CHECK_EQ(sem_post(&inside), 0);
	for (;;)
		CHECK_EQ(fread(text, 1, sizeof text, arg), sizeof text);
	pthread_cleanup_pop(0);
	return arg;
}

static void goes_on(void *(*function)(void *), const char *name, const char *mode)
{
	FILE *file = fopen(name, mode);
	pthread_t thread;
	void *result;

	CHECK(file);
	thread = start_thread(function, file);
	CHECK_EQ(sem_wait(&inside), 0);
	sleep_ms(20);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_EQ(sem_trywait(&cleaned), 0);
	CHECK_EQ(ftrylockfile(file), 0);
	funlockfile(file);
	CHECK_EQ(fclose(file), 0);
}

/* ---- what is no point */

static void *is_none(void *arg)
{
	FILE *file = arg, *silent = fopen("/dev/null", "wc");
	int before;

	CHECK(silent);
	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	/* It stays in the buffer. */
	CHECK(fputs("x", file) >= 0);
	CHECK_EQ(fprintf(file, "%s", "y"), 1);
	/* The C library's own way to say that a stream is none. */
	CHECK(fputs("x", silent) >= 0);
	CHECK_EQ(fflush(silent), 0);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before), 0);
	CHECK_EQ(fflush(file), 0);
	CHECK_EQ(fclose(silent), 0);
	CHECK_EQ(pthread_setcancelstate(before, NULL), 0);
	CHECK_EQ(sem_post(&inside), 0);
	CHECK(fputs("x", file) >= 0);
	CHECK_EQ(sem_trywait(&inside), 0);
	fflush(file);
	CHECK(false);
	return arg;
}

static void no_points(void)
{
	FILE *file = fopen("/dev/null", "w");
	void *result;

	CHECK(file);
	CHECK_EQ(pthread_join(start_thread(is_none, file), &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_EQ(ftrylockfile(file), 0);
	funlockfile(file);
	CHECK_EQ(fclose(file), 0);
}

int main(void)
{
	CHECK_EQ(sem_init(&inside, 0, 0), 0);
	CHECK_EQ(sem_init(&cleaned, 0, 0), 0);
	memset(bytes, 'x', sizeof bytes - 1);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < 4 * sizeof calls / sizeof *calls; i++)
		cancelled(&calls[i / 4], i % 2, i / 2 % 2);
	goes_on(writes_on, "/dev/null", "w");
	goes_on(reads_on, "/dev/zero", "r");
	no_points();
	return 0;
}
