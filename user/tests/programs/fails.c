/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread called "baker", or the main thread, that does something wrong: what, the first argument
 * says; who, the second. A third one sets a handler: "ends" the process with status 3, or has the
 * fault happen once more with the "default" action.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHECK(condition)                                                          \
	do {                                                                      \
		if (!(condition)) {                                               \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                  \
		}                                                                 \
	} while (0)

/* No memory of anybody's. */
static void *volatile nowhere = (void *)0x1000;

static void touch_nowhere(void)
{
	*(volatile char *)nowhere = 1;
}

static int compare(const void *left, const void *right)
{
	touch_nowhere();
	return left < right;
}

static void lock(void)
{
	pthread_mutex_lock(nowhere);
}

static void unlock(void)
{
	pthread_mutex_unlock(nowhere);
}

static void wait_for_condition(void)
{
	pthread_cond_wait(nowhere, nowhere);
}

static void join(void)
{
	pthread_join((pthread_t)0x100000, NULL);
}

static void wait_at_barrier(void)
{
	/* Of no threads, as no initialiser makes it. */
	static pthread_barrier_t none;

	pthread_barrier_wait(&none);
}

/* A page behind the end of its file. */
static void lock_behind_file(void)
{
	FILE *file = tmpfile();
	void *page;

	CHECK(file != NULL);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	CHECK(page != MAP_FAILED);
	pthread_mutex_lock(page);
}

static void touch_behind_file(void)
{
	FILE *file = tmpfile();
	char *page;

	CHECK(file != NULL);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	CHECK(page != MAP_FAILED);
	*(volatile char *)page = 1;
}

static void divide(void)
{
	volatile int number = 10, zero = 0;

	number = number / zero;
}

static void execute_nothing(void)
{
	__builtin_trap();
}

static void sort(void)
{
	int numbers[2] = {2, 1};

	qsort(numbers, 2, sizeof *numbers, compare);
}

static void run_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, touch_nowhere);
}

static void call_nothing(void)
{
	void (*volatile nothing)(void) = NULL;

	nothing();
}

static void send(void)
{
	raise(SIGSEGV);
}

static void send_bus(void)
{
	raise(SIGBUS);
}

static void send_to_process(void)
{
	kill(getpid(), SIGILL);
	pause();
}

static const struct {
	const char *name;
	void (*run)(void);
} wrongs[] = {
	{"lock", lock},
	{"unlock", unlock},
	{"condition", wait_for_condition},
	{"join", join},
	{"barrier", wait_at_barrier},
	{"touch", touch_nowhere},
	{"sort", sort},
	{"once", run_once},
	{"call", call_nothing},
	{"send", send},
	{"lock-file", lock_behind_file},
	{"touch-file", touch_behind_file},
	{"divide", divide},
	{"trap", execute_nothing},
	{"send-bus", send_bus},
	{"send-process", send_to_process},
};

static void *does_wrong(void *name)
{
	for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
		if (strcmp(name, wrongs[i].name) == 0)
			wrongs[i].run();
	}
	return name;
}

static void *baker(void *name)
{
	CHECK(pthread_setname_np(pthread_self(), "baker") == 0);
	return does_wrong(name);
}

static void *nothing(void *name)
{
	return name;
}

static void ends(int signal)
{
	_exit(signal == SIGSEGV || signal == SIGBUS ? 3 : 4);
}

static void goes_back(int number)
{
	signal(number, SIG_DFL);
}

int main(int count, char **words)
{
	const struct rlimit none = {0, 0};
	pthread_t thread;
	int is_main;

	CHECK(count >= 3);
	CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
	is_main = strcmp(words[2], "main") == 0;
	if (count > 3) {
		CHECK(signal(SIGSEGV, strcmp(words[3], "ends") ? goes_back : ends) != SIG_ERR);
		CHECK(signal(SIGBUS, strcmp(words[3], "ends") ? goes_back : ends) != SIG_ERR);
	}
	CHECK(pthread_create(&thread, NULL, is_main ? nothing : baker, words[1]) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	if (is_main)
		does_wrong(words[1]);
	return 0;
}
