/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The word of set_tid_address may be gone when the thread ends, or not be one to write to: nobody
 * takes notice. One that is there is cleared, and who waits for it is woken.
 */
#define _GNU_SOURCE
#include "check.h"
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096, AT_AN_ODD_PLACE = 7 };
static int *word;
static pid_t number;

static void *has_none(void *arg)
{
	(void)arg;
	__atomic_store_n(&number, gettid(), __ATOMIC_SEQ_CST);
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	CHECK_EQ(syscall(SYS_set_tid_address, page), gettid());
	CHECK_EQ(munmap(page, PAGE), 0);
	return NULL;
}

static void *may_not_write(void *page)
{
	__atomic_store_n(&number, gettid(), __ATOMIC_SEQ_CST);
	CHECK_EQ(syscall(SYS_set_tid_address, page), gettid());
	return NULL;
}

static void ends(void *(*start)(void *), void *arg)
{
	number = 0;
	/* A join waits for the word that set_tid_address replaces. */
	CHECK_EQ(pthread_detach(start_thread(start, arg)), 0);
	while (__atomic_load_n(&number, __ATOMIC_SEQ_CST) == 0)
		sched_yield();
	for (long end = now_ms() + 40000; sched_getscheduler(number) != -1 && now_ms() < end;)
		sleep_ms(1);
	CHECK_ERRNO(sched_getscheduler(number), ESRCH);
}

int main(void)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	word = (int *)(page + AT_AN_ODD_PLACE);
	memset(page, 0xff, PAGE);
	ends(has_none, NULL);
	ends(may_not_write, word);
	int now;
	memcpy(&now, word, sizeof now);
	CHECK_EQ(now, 0);
	word = (int *)page;
	*word = 5;
	CHECK_EQ(pthread_detach(start_thread(may_not_write, word)), 0);
	while ((now = __atomic_load_n(word, __ATOMIC_SEQ_CST)) != 0)
		syscall(SYS_futex, word, FUTEX_WAIT, now, NULL, NULL, 0);
	*word = 5;
	CHECK_EQ(mprotect(page, PAGE, PROT_READ), 0);
	ends(may_not_write, word);
	CHECK_EQ(*word, 5);
	return 0;
}
