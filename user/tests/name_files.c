/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread's name is told and changed by its file in /proc/self/task, from any thread and by any
 * of the calls that open files.
 */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static int number, done;
/* Not known to the compiler, which would warn of it. */
static const char *volatile nowhere;

static const char *path_of(const char *process, int thread)
{
	static __thread char path[64];

	snprintf(path, sizeof path, "/proc/%s/task/%d/comm", process, thread);
	return path;
}

static void check_name(pthread_t thread, const char *want)
{
	char got[16];

	CHECK_EQ(pthread_getname_np(thread, got, sizeof got), 0);
	CHECK_EQ(strcmp(got, want), 0);
}

static void check_file(int fd, const char *want)
{
	char got[32] = "", line[32];

	CHECK(fd >= 0);
	CHECK_EQ(read(fd, got, sizeof got), strlen(want) + 1);
	snprintf(line, sizeof line, "%s\n", want);
	CHECK_EQ(strcmp(got, line), 0);
	CHECK_EQ(read(fd, got, sizeof got), 0);
	CHECK_EQ(close(fd), 0);
}

static void write_name(int fd, const char *name)
{
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, name, strlen(name)), strlen(name));
	CHECK_EQ(close(fd), 0);
}

/* By every call, about a thread that waits, or about the caller. */
static void by_all(pthread_t thread, int tid)
{
	char process[16];

	snprintf(process, sizeof process, "%d", getpid());
	for (int i = 0; i < 100; i++) {
		FILE *file = fopen(path_of("self", tid), i % 2 ? "w" : "we");
		CHECK(file != NULL);
		CHECK_EQ(fcntl(fileno(file), F_GETFD), i % 2 ? 0 : FD_CLOEXEC);
		CHECK(fprintf(file, "stream %d", i) > 0);
		CHECK_EQ(fclose(file), 0);
		char want[16], got[32];
		snprintf(want, sizeof want, "stream %d", i);
		check_name(thread, want);
		file = fopen(path_of(process, tid), "r");
		CHECK(file != NULL && fgets(got, sizeof got, file) != NULL);
		CHECK_EQ(fclose(file), 0);
		CHECK_EQ(strncmp(got, want, strlen(want)), 0);
		CHECK_EQ(got[strlen(want)], '\n');
	}
	write_name(open(path_of("self", tid), O_WRONLY | O_TRUNC | O_CREAT, 0666), "by open");
	check_name(thread, "by open");
	write_name(openat(AT_FDCWD, path_of(process, tid), O_RDWR | O_CLOEXEC), "by openat");
	check_name(thread, "by openat");
	write_name(open(path_of("self", tid), O_WRONLY), "0123456789abcdefgh");
	check_name(thread, "0123456789abcde");
	check_file(open(path_of("self", tid), O_RDONLY), "0123456789abcde");
	/* Nothing is written. */
	CHECK_EQ(close(open(path_of("self", tid), O_WRONLY)), 0);
	check_name(thread, "0123456789abcde");
	/* Closed by putting another at its number. */
	int fd = open(path_of("self", tid), O_WRONLY | O_CLOEXEC), other = dup(STDIN_FILENO);
	CHECK_EQ(write(fd, "by dup2", 7), 7);
	CHECK_EQ(dup2(other, fd), fd);
	check_name(thread, "by dup2");
	CHECK_EQ(write(open(path_of("self", tid), O_WRONLY), "kept open", 9), 9);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(close(other), 0);
	CHECK_EQ(pthread_setname_np(thread, "called"), 0);
	check_file(openat(AT_FDCWD, path_of("self", tid), O_RDONLY), "called");
}

/* Paths that are none of these, wherever they lie. */
static void check_others(void)
{
	long page = sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	                   0);

	CHECK(pages != MAP_FAILED);
	CHECK_EQ(mprotect(pages + page, page, PROT_NONE), 0);
	static const char *const PATHS[] = { "/", "/proc", "/proc/", "/proc/self/comm",
		                             "/proc/self/task/", "." };
	for (unsigned i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
		char *path = pages + page - strlen(PATHS[i]) - 1;
		strcpy(path, PATHS[i]);
		int fd = open(path, O_RDONLY);
		CHECK(fd >= 0);
		CHECK_EQ(close(fd), 0);
		FILE *file = fopen(path, "r");
		CHECK(file != NULL);
		CHECK_EQ(fclose(file), 0);
	}
	memcpy(pages + page - 5, "/proc", 5);
	CHECK_ERRNO(open(pages + page - 5, O_RDONLY), EFAULT);
	CHECK_ERRNO(open(nowhere, O_RDONLY), EFAULT);
	CHECK_ERRNO(openat(AT_FDCWD, pages + page, O_RDONLY), EFAULT);
	CHECK_ERRNO(open("/proc/self/task/9/comm/x", O_RDONLY), ENOENT);
	CHECK_ERRNO(open(path_of("self", 536999999), O_RDONLY), ENOENT);
	CHECK_EQ(munmap(pages, 2 * page), 0);
}

static void *is_named(void *arg)
{
	CHECK_EQ(pthread_setname_np(pthread_self(), "first"), 0);
	check_file(open("/proc/thread-self/comm", O_RDONLY), "first");
	write_name(open("/proc/thread-self/comm", O_WRONLY), "second");
	check_name(pthread_self(), "second");
	check_others();
	by_all(pthread_self(), gettid());
	/* And the one that is a kernel thread. */
	write_name(open(path_of("self", getpid()), O_WRONLY), "main");
	check_file(open(path_of("self", getpid()), O_RDONLY), "main");
	add_value(&number, gettid());
	await_value(&done, 1);
	check_name(pthread_self(), "called");
	return arg;
}

int main(void)
{
	int tid, before = dup(STDIN_FILENO);
	pthread_t thread = start_thread(is_named, NULL);

	while ((tid = add_value(&number, 0)) == 0)
		sched_yield();
	check_name(pthread_self(), "main");
	by_all(thread, tid);
	check_others();
	add_value(&done, 1);
	join_thread(thread);
	/* The kernel tells of the end before it takes the thread's files away. */
	for (int again; (again = open(path_of("self", tid), O_RDONLY)) >= 0;) {
		CHECK_EQ(close(again), 0);
		sched_yield();
	}
	/* The kernel's for a thread that ends while it looks, and for one that has ended. */
	CHECK(errno == ESRCH || errno == ENOENT);
	/* All were closed, but for two, which are not next. */
	CHECK_EQ(dup(STDIN_FILENO), before + 1);
	return 0;
}
