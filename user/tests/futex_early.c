/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Who waited before there were other threads is woken by those who come later: a thread with a
 * stack of its own, which is a kernel thread, waits for a private word first.
 */
#include "own_stack.h"
#include <linux/futex.h>
#include <sys/syscall.h>

static int word, is_about_to;

static void *waits(void *arg)
{
	set_value(&is_about_to, 1);
	while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0)
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	return arg;
}

static void *wakes(void *arg)
{
	set_value(&word, 1);
	CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) >= 0);
	return arg;
}

int main(void)
{
	pthread_t early = start_on_own_stack(waits, NULL);
	await_value(&is_about_to, 1);
	/* It can't be seen that it waits. If it does not yet, it finds the word changed. */
	usleep(200000);
	join_thread(start_thread(wakes, NULL));
	join_thread(early);
	return 0;
}
