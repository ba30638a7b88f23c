/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What poll, select and epoll_wait make of arguments that are wrong: memory that is none, sets with
 * bits that mean nothing or no descriptor, a count below zero. What is wrong is told before signals
 * are looked at that the call's mask lets through, and nothing is written then.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>

enum { PAGE = 4096, SHORT_MS = 20, WORD = 64 };

static int caught, ready, idle, set;
static sigset_t none;

static void catches(int signal)
{
	(void)signal;
	caught++;
}

/* What ends a call with the mask `none` that looks for signals. */
static void make_pending(void)
{
	caught = 0;
	CHECK_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
}

/* A call that fails with `number` before it looks for signals. */
#define CHECK_FIRST(call, number)                                                                  \
	do {                                                                                       \
		make_pending();                                                                    \
		CHECK_ERRNO(call, number);                                                         \
		CHECK_EQ(caught, 0);                                                               \
		CHECK_ERRNO(ppoll(NULL, 0, &now, &none), EINTR);                                   \
		CHECK_EQ(caught, 1);                                                               \
	} while (0)

static struct timespec now = { 0, 0 }, soon = { 0, SHORT_MS * 1000000 }, bad_time = { 0, -1 };

/* Memory that is none, that can only be read, and that ends. */
static char *absent, *constant, *end;

static void *new_pages(int count, int protection)
{
	void *page = mmap(NULL, count * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	return page;
}

static void no_memory(void)
{
	void *places[] = { absent, (void *)8, (void *)-8, (void *)(INTPTR_MIN / 2) };
	struct pollfd entry = { .fd = idle, .events = POLLIN };
	struct epoll_event event;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		void *bad = places[i];
		CHECK_ERRNO(poll(bad, 1, 0), EFAULT);
		CHECK_ERRNO(poll(bad, 1, SHORT_MS), EFAULT);
		CHECK_ERRNO(ppoll(&entry, 1, &now, bad), EFAULT);
		CHECK_ERRNO(ppoll(&entry, 1, NULL, bad), EFAULT);
		CHECK_FIRST(ppoll(bad, 1, &now, &none), EFAULT);
		CHECK_ERRNO(epoll_pwait(set, &event, 1, 0, bad), EFAULT);
		CHECK_ERRNO(epoll_pwait(set, &event, 1, -1, bad), EFAULT);
		CHECK_ERRNO(epoll_pwait2(set, &event, 1, &now, bad), EFAULT);
		CHECK_FIRST(epoll_pwait2(set, &event, 1, bad, &none), EFAULT);
		CHECK_ERRNO(pselect(idle + 1, NULL, NULL, NULL, &now, bad), EFAULT);
		CHECK_ERRNO(pselect(idle + 1, NULL, NULL, NULL, NULL, bad), EFAULT);
		CHECK_FIRST(pselect(idle + 1, NULL, bad, NULL, &now, &none), EFAULT);
		struct timeval time = { 0, 0 };
		CHECK_ERRNO(select(idle + 1, bad, NULL, NULL, &time), EFAULT);
		CHECK_ERRNO(select(idle + 1, NULL, NULL, bad, NULL), EFAULT);
		/* Nobody looks there. */
		CHECK_EQ(poll((void *)absent, 0, 0), 0);
		CHECK_EQ(select(0, bad, NULL, NULL, &time), 0);
		/* What comes first. */
		CHECK_ERRNO(select(-1, bad, NULL, NULL, &time), EINVAL);
		CHECK_ERRNO(pselect(-1, NULL, NULL, NULL, &now, bad), EFAULT);
		CHECK_ERRNO(pselect(-1, NULL, NULL, NULL, &bad_time, bad), EINVAL);
		CHECK_ERRNO(ppoll(bad, 1, &bad_time, bad), EINVAL);
		CHECK_ERRNO(epoll_pwait(-1, bad, 0, 0, bad), EFAULT);
		CHECK_ERRNO(epoll_pwait2(-1, bad, 0, &bad_time, bad), EINVAL);
	}
	/* To read the arguments is possible, to tell the answer is not, whatever that is. */
	CHECK_ERRNO(poll((void *)constant, 1, 0), EFAULT);
	for (int i = 0; i < 2; i++) {
		struct timeval time = { 0, i ? SHORT_MS * 1000 : 0 };
		CHECK_ERRNO(select(idle + 1, (void *)constant, NULL, NULL, &time), EFAULT);
	}
	/* The kernel's masks are one word, and sets are as many as their count needs. */
	memset(end - 8, 0, 8);
	CHECK_EQ(ppoll(&entry, 1, &soon, (void *)(end - 8)), 0);
	struct timeval time = { 0, 0 };
	CHECK_EQ(select(WORD, (void *)(end - 8), NULL, NULL, &time), 0);
	CHECK_ERRNO(select(WORD + 1, (void *)(end - 8), NULL, NULL, &time), EFAULT);
}

static void wrong_numbers(void)
{
	struct epoll_event event;
	fd_set bits;
	FD_ZERO(&bits);
	FD_SET(ready, &bits);
	CHECK_FIRST(pselect(-1, &bits, NULL, NULL, &now, &none), EINVAL);
	CHECK_FIRST(pselect(-1, &bits, NULL, NULL, NULL, &none), EINVAL);
	CHECK_FIRST(pselect(ready + 1, &bits, NULL, NULL, &bad_time, &none), EINVAL);
	CHECK_FIRST(ppoll((void *)absent, 1 << 30, &now, &none), EINVAL);
	CHECK_FIRST(epoll_pwait(set, &event, 0, SHORT_MS, &none), EINVAL);
	CHECK_FIRST(epoll_pwait(-1, &event, 1, SHORT_MS, &none), EBADF);
	CHECK_FIRST(epoll_pwait2(set, &event, 1, &bad_time, &none), EINVAL);
	FD_SET(WORD - 1, &bits);
	CHECK_EQ(fcntl(WORD - 1, F_GETFD), -1);
	CHECK_FIRST(pselect(WORD, &bits, NULL, NULL, &now, &none), EBADF);
	struct timeval time = { 0, 0 };
	CHECK_ERRNO(select(WORD, NULL, &bits, NULL, &time), EBADF);
	CHECK_ERRNO(select(WORD, NULL, NULL, &bits, NULL), EBADF);
	CHECK(FD_ISSET(ready, &bits) && FD_ISSET(WORD - 1, &bits));
}

/* Words that the count reaches are told whole, and no others. */
static void other_bits(void)
{
	for (int waits = 0; waits < 2; waits++) {
		unsigned long words[FD_SETSIZE / WORD];
		memset(words, 0xff, sizeof(words));
		words[0] = 1ul << idle | 1ul << (WORD - 1);
		struct timeval time = { 0, waits ? SHORT_MS * 1000 : 0 };
		CHECK_EQ(select(idle + 1, (void *)words, NULL, NULL, &time), 0);
		CHECK_EQ(words[0], 0);
		CHECK_EQ(words[1], -1);
		words[0] = 1ul << idle | 1ul << ready | 1ul << (WORD - 1);
		CHECK_EQ(select(idle + ready + 1, (void *)words, NULL, NULL, &time), 1);
		CHECK_EQ(words[0], 1ul << ready);
		CHECK_EQ(words[1], -1);
	}
}

/* In the third set there is nothing of an end, which poll is told of whatever it asks for. */
static void end_in_third(void)
{
	int ends[2];
	CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
	close(ends[1]);
	for (int i = 0; i < 3; i++) {
		fd_set bits;
		FD_ZERO(&bits);
		FD_SET(ends[0], &bits);
		struct timeval time = { 0, SHORT_MS * 1000 };
		long begin = now_ms();
		CHECK_EQ(select(FD_SETSIZE, NULL, NULL, &bits, &time), 0);
		CHECK(now_ms() - begin >= SHORT_MS - 2);
		CHECK(!FD_ISSET(ends[0], &bits));
	}
	close(ends[0]);
}

static void *all(void *arg)
{
	sigset_t blocked;
	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
	struct sigaction action = { .sa_handler = catches };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	constant = new_pages(1, PROT_READ);
	end = absent = (char *)new_pages(2, PROT_READ | PROT_WRITE) + PAGE;
	CHECK_EQ(mprotect(absent, PAGE, PROT_NONE), 0);
	ready = eventfd(1, EFD_CLOEXEC);
	idle = eventfd(0, EFD_CLOEXEC);
	set = epoll_create1(EPOLL_CLOEXEC);
	CHECK(ready >= 0 && idle >= 0 && set >= 0);
	/* The kernel takes select's count for no more than the descriptors that it has room for, 64 or
	 * more; that the room grows is not undone. */
	CHECK_EQ(dup2(idle, 2 * WORD), 2 * WORD);
	close(2 * WORD);
	no_memory();
	wrong_numbers();
	other_bits();
	end_in_third();
	return arg;
}

int main(void)
{
	join_thread(start_thread(all, NULL));
	CHECK_ERRNO(ppoll(NULL, 0, &now, (void *)absent), EFAULT);
	return 0;
}
