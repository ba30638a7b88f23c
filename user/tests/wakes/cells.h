/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Cells: a few members that wait for each other, or for time, until the round is over.
 *
 * Invariant: a cell ends by itself once `is_closing` is set, whatever its members wait in then,
 * and afterwards its counts agree, or the program fails. Members are threads, kernel threads
 * (stacks of their own), other processes, and threads whose signal handlers do the waking.
 */
#ifndef CELLS_H
#define CELLS_H

#include "links.h"
#include <sys/timerfd.h>

enum { STACK_BYTES = 256 << 10, PARTIES = 4 };

/* How members pass the time between two waits. */
enum pace { NEVER, YIELDS, SPINS, SLEEPS, PACES };

struct cell;
typedef void (*member_work)(struct cell *, struct member *, unsigned long *random);

struct cell {
	int name;
	int pair; /* its place in the list of pairs */
	enum pace pace;
	int is_closing;
	struct seen *seen;
	/* Tokens that go there and back: see exchange.h. */
	struct link there, back;
	int producers, consumers, credit, wakers;
	int left, is_closed, pending, by_timer;
	long last;
	timer_t timer;
	/* What all do: see meet.h. */
	pthread_mutex_t mutex;
	pthread_rwlock_t rwlock;
	pthread_barrier_t barrier;
	pthread_cond_t cond;
	sem_t sem;
	long counted, turns, woken, timeouts;
	/* The members. */
	struct start {
		struct cell *cell;
		struct member *member;
		member_work work;
		unsigned long random;
		pthread_t thread;
		pid_t process;
		void *stack;
	} starts[MEMBERS_MAX];
	int count;
};

static int is_closing(struct cell *cell)
{
	return __atomic_load_n(&cell->is_closing, __ATOMIC_ACQUIRE);
}

static void count_in(long *word, long count)
{
	__atomic_add_fetch(word, count, __ATOMIC_RELAXED);
}

static void spin_ns(long ns)
{
	struct timespec now, start;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < ns);
}

static void dawdle(struct cell *cell, unsigned long *random)
{
	if (cell->pace == NEVER || below(random, cell->pace == SLEEPS ? 64 : 8))
		return;
	if (cell->pace == YIELDS)
		sched_yield();
	else if (cell->pace == SPINS)
		spin_ns(below(random, 20000));
	else
		usleep(below(random, 1000));
}

static void begin_cell(struct cell *cell, const char *name)
{
	memset(cell->seen, 0, sizeof(*cell->seen));
	cell->seen->name = name;
}

/* Handlers run in the cells that are woken by handlers, and on the main thread. */
static int wake_signal, timer_signal;

static void *run_member(void *arg)
{
	struct start *it = arg;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, wake_signal);
	sigaddset(&set, timer_signal);
	int how = it->cell->wakers == HANDLER ? SIG_UNBLOCK : SIG_BLOCK;
	CHECK_EQ(pthread_sigmask(how, &set, NULL), 0);
	it->work(it->cell, it->member, &it->random);
	__atomic_store_n(&it->member->doing, NULL, __ATOMIC_RELEASE);
	return NULL;
}

static struct start *prepare(struct cell *cell, enum member_kind kind, member_work work,
			     unsigned long *random)
{
	CHECK(cell->count < MEMBERS_MAX);
	struct start *it = &cell->starts[cell->count];
	struct member *member = &cell->seen->members[cell->count];
	*it = (struct start){ cell, member, work, draw(random) | 1, 0, 0, NULL };
	member->kind = kind;
	member->doing = "starts";
	cell->seen->members_count = ++cell->count;
	return it;
}

/* Processes are made before any thread of the round. */
static void add_process(struct cell *cell, member_work work, unsigned long *random)
{
	struct start *it = prepare(cell, PROCESS, work, random);
	pid_t parent = getpid();
	pid_t child = fork();
	CHECK(child >= 0);
	if (child > 0) {
		it->process = child;
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		run_member(it);
	_exit(0);
}

static void start_member(struct start *it)
{
	pthread_attr_t attr;
	if (it->member->kind == PROCESS)
		return;
	CHECK_EQ(pthread_attr_init(&attr), 0);
	if (it->member->kind == KERNEL) {
		it->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(it->stack != MAP_FAILED);
		CHECK_EQ(pthread_attr_setstack(&attr, it->stack, STACK_BYTES), 0);
	}
	CHECK_EQ(pthread_create(&it->thread, &attr, run_member, it), 0);
	pthread_attr_destroy(&attr);
}

static void end_member(struct start *it)
{
	if (it->member->kind == PROCESS) {
		int status;
		while (waitpid(it->process, &status, 0) < 0)
			CHECK_EQ(errno, EINTR);
		CHECK_EQ(status, 0);
		return;
	}
	CHECK_EQ(pthread_join(it->thread, NULL), 0);
	if (it->stack)
		munmap(it->stack, STACK_BYTES);
}

static enum member_kind thread_kind(unsigned long *random)
{
	return below(random, 3) ? FULL : KERNEL;
}

#endif
