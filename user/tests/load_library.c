/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Libraries with thread-local storage (dynamic, initial-exec, objects with destructors) that are
 * loaded while threads exist: by main and by a thread, beside threads that are made at the same
 * time. Old and new threads have storage of their own with its first values, wherever they go on;
 * what a library is closed with is as good as new when it is loaded again.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

#define THREADS 12
#define ROUNDS 4

typedef int *(*number_fn)(void);
typedef char *(*many_fn)(void);

static number_fn number_of_thread;
static many_fn many_of_thread;
static int round_begun, round_ended, is_over;

static void use(int mine)
{
	int *number = number_of_thread();
	char *many = many_of_thread();

	CHECK_EQ(*number, 7);
	CHECK_EQ(many[0] + many[63], 0);
	*number = mine;
	memset(many, mine, 64);
	for (int i = 0; i < 20; i++) {
		if (i % 4)
			sched_yield();
		else
			usleep(100);
		CHECK(number_of_thread() == number && many_of_thread() == many);
		CHECK_EQ(*number, mine);
		CHECK_EQ(many[0] + many[63], 2 * mine);
	}
}

/* A thread that is there before the library, and uses it anew in each round. */
static void *old_thread(void *arg)
{
	for (int round = 1; round <= ROUNDS; round++) {
		while (__atomic_load_n(&round_begun, __ATOMIC_SEQ_CST) != round)
			usleep(200);
		use((int)(intptr_t)arg + 8);
		add_value(&round_ended, 1);
	}
	return arg;
}

static void *new_thread(void *arg)
{
	use((int)(intptr_t)arg + 40);
	return arg;
}

static void *makes_others(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST))
		join_thread(start_thread((void *(*)(void *))strdup, "x"));
	return arg;
}

static void *loads(void *path)
{
	void *library = dlopen(path, RTLD_NOW);

	if (library == NULL)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library != NULL);
	*(void **)&number_of_thread = dlsym(library, "number_of_thread");
	*(void **)&many_of_thread = dlsym(library, "many_of_thread");
	CHECK(number_of_thread != NULL && many_of_thread != NULL);
	return library;
}

static void try_library(char *path, int closes)
{
	pthread_t old[THREADS], new[THREADS], maker;
	int (*alive)(void) = NULL;

	round_begun = is_over = 0;
	for (intptr_t i = 0; i < THREADS; i++)
		old[i] = start_thread(old_thread, (void *)i);
	maker = start_thread(makes_others, NULL);
	for (int round = 1; round <= (closes ? ROUNDS : 1); round++) {
		void *library = round % 2 ? loads(path) : join_thread(start_thread(loads, path));

		*(void **)&alive = dlsym(library, "alive_objects");
		round_ended = 0;
		set_value(&round_begun, round);
		for (intptr_t i = 0; i < THREADS; i++)
			new[i] = start_thread(new_thread, (void *)i);
		for (int i = 0; i < THREADS; i++)
			join_thread(new[i]);
		await_value(&round_ended, THREADS);
		if (alive != NULL)
			CHECK_EQ(alive(), THREADS);
		if (closes)
			CHECK_EQ(dlclose(library), 0);
	}
	set_value(&is_over, 1);
	join_thread(maker);
	if (!closes) {
		/* They would find what they have left there in the next round. */
		for (int i = 0; i < THREADS; i++)
			CHECK_EQ(pthread_cancel(old[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		join_thread(old[i]);
	if (alive != NULL)
		CHECK_EQ(alive(), 0);
}

int main(void)
{
	char dynamic[] = PARTS "dynamic.so", objects[] = PARTS "objects.so";
	char initial_exec[] = PARTS "initial_exec.so";

	try_library(dynamic, 1);
	try_library(objects, 0);
	try_library(initial_exec, 0);
	return 0;
}
