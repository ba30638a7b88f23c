/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Kinds of threads for tests of the account: told apart by function, name and size, and how each
 * ends.
 *
 *     kinds alone [NAME]   whether the thread `urgent` (or called NAME) runs before two others
 *     kinds sizes BYTES    three kinds, one of which asks for 300 KiB; `deep` uses BYTES
 *     kinds own            a thread on the program's own memory, and one that is cancelled
 *     kinds cpu            150 ms of CPU time in short pieces, as much in one, and next to none;
 *                          says what the workers used by the kernel, a line each
 *     kinds mixed BYTES    many short threads of two kinds in turns; one of `varied` uses BYTES
 *     kinds say            threads that say what they are for, by attributes and by SCHED_HEDDLE
 *     kinds end HOW        a thread that never ends, and an end by return, _exit, quick_exit,
 *                          exec, kill
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <dirent.h>
#include <heddle/pthread_np.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 2000
#define USED_NS 150000000

static size_t depth;
static const char *name;
static atomic_int others_rounds, are_ready, may_go;

static __attribute__((noinline)) void use_stack(size_t bytes)
{
	/* By pieces that no guard page can be stepped over with. */
	volatile char piece[1024];

	memset((char *)piece, 1, sizeof(piece));
	if (bytes > sizeof(piece))
		use_stack(bytes - sizeof(piece));
	piece[0] = 2;
}

static void wait_for_start(void)
{
	are_ready++;
	while (!may_go)
		usleep(1000);
}

static void *other(void *argument)
{
	wait_for_start();
	for (int i = 0; i < ROUNDS; i++) {
		others_rounds++;
		sched_yield();
	}
	return argument;
}

/* Says whether others ran while it did. */
static void *urgent(void *argument)
{
	int before;

	if (name)
		pthread_setname_np(pthread_self(), name);
	wait_for_start();
	before = others_rounds;
	for (int i = 0; i < ROUNDS; i++)
		sched_yield();
	puts(others_rounds - before < ROUNDS / 10 ? "alone" : "together");
	return argument;
}

static void *plain(void *argument)
{
	use_stack(4096);
	return argument;
}

static void *deep(void *argument)
{
	use_stack(depth);
	return argument;
}

static void *endless(void *argument)
{
	use_stack(9000);
	are_ready++;
	for (;;)
		sleep(60);
	return argument;
}

static int alone(void)
{
	pthread_t threads[3];

	pthread_create(&threads[0], NULL, other, NULL);
	pthread_create(&threads[1], NULL, urgent, NULL);
	pthread_create(&threads[2], NULL, other, NULL);
	while (are_ready < 3)
		usleep(1000);
	may_go = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static void run(void *(*start)(void *), const pthread_attr_t *attributes)
{
	pthread_t thread;

	for (int i = 0; i < 3; i++) {
		pthread_create(&thread, attributes, start, NULL);
		pthread_join(thread, NULL);
	}
}

static int sizes(void)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 300 << 10);
	run(plain, &attributes);
	run(deep, NULL);
	run(other, NULL);
	puts("ran");
	return 0;
}

static int own(void)
{
	static char stack[256 << 10] __attribute__((aligned(4096)));
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack, sizeof(stack));
	pthread_create(&thread, &attributes, plain, NULL);
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, endless, NULL);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	return 0;
}

static void *varied(void *argument)
{
	use_stack(argument ? depth : 1);
	return NULL;
}

static void one(void *(*start)(void *), void *argument)
{
	pthread_t thread;

	pthread_create(&thread, NULL, start, argument);
	pthread_join(thread, NULL);
}

/* The deep one is late, and has no number that a power of two divides. */
static int mixed(void)
{
	for (int i = 0; i < 1000; i++) {
		one(varied, i == 777 ? &depth : NULL);
		if (i % 10 == 7)
			one(plain, NULL);
	}
	return 0;
}

static const struct heddle_attributes gas = {
	.size_bytes = sizeof(gas),
	.thread_class = HEDDLE_TIME_CRITICAL,
	.priority = 20,
	.group = HEDDLE_GROUP_URGENT,
	.category = HEDDLE_CATEGORY_EVENT,
	.role = "gas detection",
};

static void check(int is_right, const char *what)
{
	if (!is_right) {
		fprintf(stderr, "%s\n", what);
		exit(1);
	}
}

static void *spoken(void *argument)
{
	struct heddle_attributes read = {.size_bytes = sizeof(read)}, wrong = gas;

	wrong.priority = 100;
	check(pthread_setattributes_np(pthread_self(), &wrong) == EINVAL, "a priority of 100");
	check(pthread_setattributes_np(pthread_self(), &gas) == 0, "pthread_setattributes_np");
	/* A rule for the name says less than the program. */
	pthread_setname_np(pthread_self(), "sensor/2");
	check(pthread_getattributes_np(pthread_self(), &read) == 0, "pthread_getattributes_np");
	check(memcmp(&read, &gas, sizeof(gas)) == 0, "what was said");
	return argument;
}

static void check_policy(int expected, int priority)
{
	struct sched_param param;
	int policy;

	check(pthread_getschedparam(pthread_self(), &policy, &param) == 0, "getschedparam");
	check(policy == expected && param.sched_priority == priority, "policy and priority");
}

static void *asked(void *argument)
{
	check_policy(SCHED_HEDDLE, 40);
	return argument;
}

static void *changed(void *argument)
{
	const struct sched_param none = {0}, some = {.sched_priority = 7};

	check(pthread_setschedparam(pthread_self(), SCHED_HEDDLE, &some) == 0, "SCHED_HEDDLE");
	check_policy(SCHED_HEDDLE, 7);
	check(pthread_setschedparam(pthread_self(), SCHED_OTHER, &none) == 0, "SCHED_OTHER");
	check_policy(SCHED_OTHER, 0);
	check(pthread_setschedparam(pthread_self(), SCHED_HEDDLE, &some) == 0, "again");
	return argument;
}

static int say(void)
{
	const struct sched_param param = {.sched_priority = 40};
	pthread_attr_t attributes;
	pthread_t thread;

	one(spoken, NULL);
	pthread_attr_init(&attributes);
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	check(pthread_attr_setschedpolicy(&attributes, SCHED_HEDDLE) == 0, "in attributes");
	check(pthread_attr_setschedparam(&attributes, &param) == 0, "its priority");
	check(pthread_create(&thread, &attributes, asked, NULL) == 0, "a thread");
	pthread_join(thread, NULL);
	one(changed, NULL);
	check(pthread_setattributes_np(pthread_self(), &gas) == 0, "the main thread");
	puts("said");
	return 0;
}

static long used_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec * 1000000000 + used.tv_nsec;
}

/* Until the process has used so much. */
static void *in_pieces(void *until)
{
	while (used_ns() < *(long *)until)
		sched_yield();
	return NULL;
}

static void *in_one(void *until)
{
	while (used_ns() < *(long *)until)
		;
	return NULL;
}

/* Waits in the kernel, and nobody is told. */
static void *unseen(void *argument)
{
	const struct timespec long_time = {0, USED_NS};
	register const void *time __asm__("rdi") = &long_time;
	register const void *rest __asm__("rsi") = NULL;
	long result = SYS_nanosleep;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "r"(time), "r"(rest)
			 : "rcx", "r11", "memory");
	return argument;
}

static void together(void *(*start)(void *), int count)
{
	pthread_t threads[2];
	/* With what a call of the threads' library may have left beside it. */
	long until[] = {used_ns() + USED_NS, (long)pthread_create, 0};

	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, start, until);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

/* What the kernel threads that run the others have used, by the kernel. */
static long workers_ns(void)
{
	char path[64], name[32];
	struct dirent *entry;
	long ns, all = 0;
	DIR *tasks = opendir("/proc/self/task");

	while ((entry = readdir(tasks))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", entry->d_name);
		file = fopen(path, "r");
		check(!file || fgets(name, sizeof(name), file), "comm");
		if (file)
			fclose(file);
		if (!file || strncmp(name, "heddle-", 7) != 0 || name[7] < '0' || name[7] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%.16s/schedstat", entry->d_name);
		file = fopen(path, "r");
		check(file && fscanf(file, "%ld", &ns) == 1, "schedstat");
		fclose(file);
		all += ns;
	}
	closedir(tasks);
	return all;
}

static int cpu(void)
{
	void *(*const starts[])(void *) = {in_pieces, in_one, unseen};

	for (int i = 0; i < 3; i++) {
		long before = workers_ns();

		together(starts[i], i < 2 ? 2 : 1);
		printf("%ld\n", workers_ns() - before);
	}
	return 0;
}

static int end(const char *how)
{
	pthread_t thread;

	pthread_create(&thread, NULL, endless, NULL);
	while (!are_ready)
		usleep(1000);
	if (strcmp(how, "_exit") == 0)
		_exit(3);
	if (strcmp(how, "quick_exit") == 0)
		quick_exit(4);
	if (strcmp(how, "exec") == 0)
		execl("/bin/true", "true", NULL);
	if (strcmp(how, "kill") == 0)
		raise(SIGKILL);
	return 0;
}

int main(int count, char **words)
{
	const char *mode = count > 1 ? words[1] : "", *word = count > 2 ? words[2] : NULL;

	if (strcmp(mode, "alone") == 0) {
		name = word;
		return alone();
	}
	if (strcmp(mode, "own") == 0)
		return own();
	if (strcmp(mode, "say") == 0)
		return say();
	if (strcmp(mode, "cpu") == 0)
		return cpu();
	may_go = 1;
	depth = word ? (size_t)atol(word) : 0;
	if (strcmp(mode, "mixed") == 0)
		return mixed();
	return strcmp(mode, "sizes") == 0 ? sizes() : end(word ? word : "");
}
