/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that compute where they can't be made to leave, on stacks of the program's own making and
 * in a handler of a fault, keep nobody else from running: who they wait for comes to it. Of such a
 * stack nothing is touched below what they use themselves: it may be a heap's, with objects there.
 * So it is where a thread's own stack is nearly used up.
 */
#define _GNU_SOURCE
#include "check.h"
#include <alloca.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { SPINNERS = 3, STACK_BYTES = 64 << 10, OWN_BYTES = 1 << 10, LEFT_BYTES = 900 };
enum { OBJECT = 0x5a };

static int count, go_on;
static char *page;

static void spin(void)
{
	__atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&go_on, __ATOMIC_SEQ_CST))
		;
}

static void spin_above_objects(char *low)
{
	char *end = (char *)__builtin_frame_address(0) - OWN_BYTES;
	memset(low, OBJECT, end - low);
	spin();
	for (char *at = low; at < end; at++)
		CHECK_EQ(*at, OBJECT);
}

static void begin(unsigned low, unsigned high)
{
	spin_above_objects((char *)((uintptr_t)high << 32 | low));
}

static void *spins_elsewhere(void *arg)
{
	ucontext_t home, there;
	CHECK_EQ(getcontext(&there), 0);
	there.uc_stack.ss_sp = malloc(STACK_BYTES);
	there.uc_stack.ss_size = STACK_BYTES;
	there.uc_link = &home;
	uintptr_t low = (uintptr_t)there.uc_stack.ss_sp;
	makecontext(&there, (void (*)(void))begin, 2, (unsigned)low, (unsigned)(low >> 32));
	CHECK_EQ(swapcontext(&home, &there), 0);
	free(there.uc_stack.ss_sp);
	return arg;
}

static void *spins_near_the_end(void *arg)
{
	pthread_attr_t attributes;
	void *low;
	size_t bytes;
	CHECK_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
	CHECK_EQ(pthread_attr_getstack(&attributes, &low, &bytes), 0);
	CHECK_EQ(pthread_attr_destroy(&attributes), 0);
	char *place = alloca((char *)__builtin_frame_address(0) - (char *)low - LEFT_BYTES);
	*(volatile char *)place = 0;
	spin();
	return arg;
}

static void on_fault(int signal)
{
	(void)signal;
	spin();
	mprotect(page, 1, PROT_READ);
}

static void *spins_in_handler(void *arg)
{
	CHECK_EQ(*(volatile char *)page, 0);
	return arg;
}

/* It sleeps, so it has to get a worker when it wakes. */
static void *lets_go(void *all)
{
	sleep_ms(5);
	await_value(&count, (int)(intptr_t)all);
	set_value(&go_on, 1);
	return NULL;
}

static void turn(int spinners, void *(*spins)(void *))
{
	pthread_t threads[SPINNERS];
	set_value(&count, 0);
	set_value(&go_on, 0);
	pthread_t other = start_thread(lets_go, (void *)(intptr_t)spinners);
	for (int i = 0; i < spinners; i++)
		threads[i] = start_thread(spins, NULL);
	for (int i = 0; i < spinners; i++)
		join_thread(threads[i]);
	join_thread(other);
}

int main(void)
{
	for (int i = 1; i <= SPINNERS; i++)
		turn(i, spins_elsewhere);
	for (int i = 1; i <= SPINNERS; i++)
		turn(i, spins_near_the_end);
	struct sigaction action = { .sa_handler = on_fault };
	CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
	page = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	turn(1, spins_in_handler);
	return 0;
}
