/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * libunwind, as crash handlers use it, in a thread and in the handler of a signal that interrupts
 * it: every frame down to the start function, and an end there. The library is loaded by name, so
 * that its headers are not needed.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <signal.h>

#define DEPTH 20

/* More room than its context and cursor want. */
typedef struct { long words[512]; } room;

static int (*init_local)(room *, void *), (*step)(room *), (*get_reg)(room *, int, uintptr_t *);
static int (*get_context)(void *);
static int seen_dig, seen_start, frames, is_deep;
static volatile int goes_on = 1, sink;
static void *starts(void *arg);
static void dig(int depth, int computes);

static void walk(void)
{
	room context, cursor;
	int result = 1;

	seen_dig = seen_start = frames = 0;
	CHECK_EQ(get_context(&context), 0);
	CHECK_EQ(init_local(&cursor, &context), 0);
	while (frames < 200 && (result = step(&cursor)) > 0) {
		uintptr_t ip = 0;
		Dl_info info;
		CHECK_EQ(get_reg(&cursor, 16, &ip), 0);
		/* Functions of the program are not in its table of symbols: by their places. */
		seen_dig += ip >= (uintptr_t)dig && ip < (uintptr_t)dig + 200;
		seen_start += ip >= (uintptr_t)starts && ip < (uintptr_t)starts + 400;
		CHECK(ip == 0 || dladdr((void *)ip, &info) != 0);
		frames++;
	}
	CHECK_EQ(result, 0);
}

__attribute__((noinline)) static void dig(int depth, int computes)
{
	if (depth > 0) {
		dig(depth - 1, computes);
	} else if (computes) {
		set_value(&is_deep, 1);
		while (goes_on)
			sink++;
	} else {
		walk();
	}
	__asm__ volatile("" : : : "memory");
}

static void on_signal(int signal)
{
	(void)signal;
	walk();
	goes_on = 0;
}

static void check(void)
{
	CHECK(seen_dig >= DEPTH);
	CHECK(seen_start >= 1);
}

__attribute__((noinline)) static void *starts(void *arg)
{
	dig(DEPTH, 0);
	check();
	dig(DEPTH, 1);
	check();
	return arg;
}

int main(void)
{
	void *library = dlopen("libunwind.so.8", RTLD_NOW);

	if (library == NULL)
		SKIP("libunwind is not installed");
	*(void **)&init_local = dlsym(library, "_ULx86_64_init_local");
	*(void **)&step = dlsym(library, "_ULx86_64_step");
	*(void **)&get_reg = dlsym(library, "_ULx86_64_get_reg");
	*(void **)&get_context = dlsym(library, "_Ux86_64_getcontext");
	if (init_local == NULL || step == NULL || get_reg == NULL || get_context == NULL)
		SKIP("this libunwind has other names");
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
	for (int i = 0; i < 3; i++) {
		set_value(&is_deep, 0);
		goes_on = 1;
		pthread_t thread = start_thread(starts, NULL);
		await_value(&is_deep, 1);
		usleep(3000);
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		join_thread(thread);
	}
	return 0;
}
