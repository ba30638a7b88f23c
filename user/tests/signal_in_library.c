/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that spend their time in functions of the C library, and in a callback of one now and
 * then: they take signals soon, are cancelled there, and leave the processor to others; what these
 * functions were in the middle of goes on as if nothing had been.
 */
#define _GNU_SOURCE
#include "stops.h"
#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>

/* So few numbers are sorted without an allocation, in which a thread must not be cancelled. */
enum { BYTES = 1 << 20, NUMBERS = 250, KILLS = 10, CANCELS = 10, TURNS = 20, STOPS = 30 };

static char *memory;
static volatile size_t sink;
static int stop;
static FILE *null;

static double now(void)
{
	struct timespec time;
	CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &time), 0);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void allocate(int *numbers)
{
	enum { BLOCKS = 16 };
	unsigned char *blocks[BLOCKS];
	for (int i = 0; i < BLOCKS; i++) {
		size_t bytes = 1 + (size_t)numbers[i] % 3000;
		CHECK(blocks[i] = malloc(bytes));
		memset(blocks[i], i, bytes);
	}
	for (int i = 0; i < BLOCKS; i++) {
		size_t bytes = 1 + (size_t)numbers[i] % 3000;
		CHECK_EQ(blocks[i][0], i);
		CHECK_EQ(blocks[i][bytes - 1], i);
		free(blocks[i]);
	}
}

static void print(int *numbers)
{
	char text[200];
	int length = snprintf(text, sizeof(text), "%d %s %.3f", numbers[0], "text", 1.5);
	int number, end = 0;
	float value;
	CHECK_EQ(sscanf(text, "%d text %f%n", &number, &value, &end), 2);
	CHECK_EQ(end, length);
	CHECK_EQ(number, numbers[0]);
	CHECK(value == 1.5F);
}

static void fill(int *numbers)
{
	(void)numbers;
	memset(memory, 1, BYTES);
}

static void measure(int *numbers)
{
	(void)numbers;
	sink = strlen(memory + BYTES);
	CHECK_EQ(sink, BYTES - 1);
}

static int compare(const void *a, const void *b)
{
	int first = *(const int *)a, second = *(const int *)b;
	return (first > second) - (first < second);
}

static void sort(int *numbers)
{
	int sorted[NUMBERS];
	memcpy(sorted, numbers, sizeof(sorted));
	qsort(sorted, NUMBERS, sizeof(int), compare);
	for (int i = 1; i < NUMBERS; i++)
		CHECK(sorted[i - 1] <= sorted[i]);
}

/* Some of what this calls was written by hand, without a word for the unwinder. */
static void parse(int *numbers)
{
	(void)numbers;
	CHECK(strtod("1.2345678901234567890123456789e100", NULL) > 1e100);
}

static void open_one(int *numbers)
{
	FILE *stream = fopen("/dev/null", "w");
	CHECK(stream);
	CHECK_EQ(fputc(numbers[0], stream), numbers[0]);
	CHECK_EQ(fclose(stream), 0);
}

static void print_out(int *numbers)
{
	CHECK(fprintf(null, "%d %s\n", numbers[0], "text") > 0);
	CHECK_EQ(fflush(null), 0);
}

static void fork_one(int *numbers)
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(numbers[0]);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == numbers[0]);
}

static int count_one(struct dl_phdr_info *info, size_t bytes, void *count)
{
	CHECK(bytes >= sizeof(*info));
	++*(int *)count;
	return 0;
}

static void go_through(int *numbers)
{
	int count = 0;
	(void)numbers;
	CHECK_EQ(dl_iterate_phdr(count_one, &count), 0);
	CHECK(count > 1);
}

static void look_up(int *numbers)
{
	(void)numbers;
	CHECK(dlsym(RTLD_DEFAULT, "printf"));
	CHECK(!dlsym(RTLD_DEFAULT, "signal_in_library"));
}

static void load_one(int *numbers)
{
	void *library = dlopen("libm.so.6", RTLD_NOW);
	(void)numbers;
	CHECK(library);
	CHECK(dlsym(library, "cos"));
	CHECK_EQ(dlclose(library), 0);
}

static void *same(void *value)
{
	return value;
}

static void make_one(int *numbers)
{
	pthread_t thread;
	void *value;
	CHECK_EQ(pthread_create(&thread, NULL, same, numbers), 0);
	CHECK_EQ(pthread_join(thread, &value), 0);
	CHECK(value == numbers);
}

/* In the first ones a thread may be cancelled at any time: natively, too. */
static void (*const KINDS[])(int *) = { fill,	   measure,  sort,    print,	parse,
					allocate,  print_out, open_one, fork_one, go_through,
					look_up, load_one, load_one, make_one };
enum { CANCELLED = 5, COUNT = sizeof(KINDS) / sizeof(*KINDS) };

static void *compute(void *kind)
{
	int numbers[NUMBERS];
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = i * 7919 % 10007;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		KINDS[(intptr_t)kind](numbers);
	return kind;
}

static void on_signal(int signal)
{
	(void)signal;
	CHECK_EQ(sem_post(&handled), 0);
}

static void make(pthread_t *thread, intptr_t kind)
{
	CHECK_EQ(pthread_create(thread, NULL, compute, (void *)kind), 0);
}

static void end(const pthread_t *threads, int count)
{
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < count; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
}

static void takes_signals(intptr_t kind)
{
	pthread_t thread;
	make(&thread, kind);
	for (int i = 0; i < KILLS; i++) {
		CHECK_EQ(usleep(1000), 0);
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		await(1);
	}
	end(&thread, 1);
}

static void count(void *times)
{
	++*(int *)times;
}

static int cleaned;

static void *asynchronous(void *kind)
{
	int before;
	pthread_cleanup_push(count, &cleaned);
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before), 0);
	CHECK_EQ(sem_post(&handled), 0);
	compute(kind);
	pthread_cleanup_pop(0);
	return kind;
}

static void is_cancelled(intptr_t kind)
{
	pthread_t thread;
	void *result;
	int before = cleaned;
	CHECK_EQ(pthread_create(&thread, NULL, asynchronous, (void *)kind), 0);
	await(1);
	CHECK_EQ(usleep(2000), 0);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_EQ(cleaned, before + 1);
}

/* As many as would keep all processors. */
static void leave_it_to_others(void)
{
	enum { THREADS = 8 };
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		make(&threads[i], i % COUNT);
	double begin = now();
	for (int i = 0; i < TURNS; i++)
		CHECK_EQ(usleep(1000), 0);
	CHECK(now() - begin < 20);
	send_all(threads, THREADS, SIGUSR1);
	end(threads, THREADS);
}

static void are_stopped(void)
{
	pthread_t threads[COUNT];
	prepare_stops();
	for (int i = 0; i < COUNT; i++)
		make(&threads[i], i);
	stop_them(threads, COUNT, STOPS);
	end(threads, COUNT);
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(sem_init(&handled, 0, 0), 0);
	CHECK(null = fopen("/dev/null", "w"));
	CHECK(memory = malloc(2 * BYTES));
	memset(memory, 1, 2 * BYTES);
	memory[2 * BYTES - 1] = 0;
	for (intptr_t kind = 0; kind < COUNT; kind++) {
		takes_signals(kind);
		for (int i = 0; kind < CANCELLED && i < CANCELS; i++)
			is_cancelled(kind);
	}
	leave_it_to_others();
	are_stopped();
	return 0;
}
