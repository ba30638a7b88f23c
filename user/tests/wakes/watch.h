/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What a watchdog in another process sees of the stress: who takes part, in which cell, and what
 * each of them is doing now.
 *
 * Invariant: the memory is shared with every process of the run, and nothing in it is waited for;
 * so the watchdog can tell of a run in which nobody moves any more. A cell in which somebody takes
 * part and nothing moves for STILL_S seconds has lost a wake.
 */
#ifndef WATCH_H
#define WATCH_H

#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Longer than anybody is kept from a processor on a busy machine. */
#define STILL_S 30

enum { CELLS_MAX = 16, MEMBERS_MAX = 8, PAIRS_MAX = 256 };

/* Who takes part. A thread with a stack of the program's own is a kernel thread everywhere. */
enum member_kind { FULL, KERNEL, PROCESS, HANDLER, MEMBER_KINDS };
static const char *const member_names[] = { "thread", "kernel thread", "process", "handler" };

struct member {
	int kind;	   /* enum member_kind; HANDLER: a thread whose handlers wake */
	const char *doing; /* a text of the program; NULL: not there, or gone */
	long moves;
	long unused[5]; /* a cache line of its own */
};

struct seen {
	const char *name; /* of the cell; NULL: no such cell now */
	const char *links[2];
	long sent[2], received[2];
	int members_count;
	struct member members[MEMBERS_MAX];
};

struct watched {
	unsigned long seed;
	long round;
	long wakes, timeouts; /* of rounds that are over */
	const char *doing;    /* what the main thread does */
	long moves;	      /* of the main thread */
	int is_over;
	struct seen cells[CELLS_MAX];
	long pair_wakes[PAIRS_MAX]; /* by place in the list of pairs */
};

static struct watched *watched;

/* Anonymous memory that forked children share. */
static void *shared_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

static long peek(const long *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void doing(struct member *me, const char *what)
{
	__atomic_store_n(&me->doing, what, __ATOMIC_RELAXED);
	__atomic_store_n(&me->moves, me->moves + 1, __ATOMIC_RELAXED);
}

static void main_does(const char *what)
{
	watched->doing = what;
	watched->moves++;
}

static void tell_cell(const struct seen *cell)
{
	fprintf(stderr, "  cell %td, %s:", cell - watched->cells, cell->name);
	for (int i = 0; i < 2; i++)
		if (cell->links[i])
			fprintf(stderr, " %s sent %ld received %ld;", cell->links[i],
				peek(&cell->sent[i]), peek(&cell->received[i]));
	fprintf(stderr, "\n");
	for (int i = 0; i < cell->members_count; i++) {
		const struct member *it = &cell->members[i];
		fprintf(stderr, "    %s %d: %s, after %ld moves\n", member_names[it->kind], i,
			it->doing ? it->doing : "gone", peek(&it->moves));
	}
}

/* How often somebody has moved in a cell; *there: whether somebody still takes part. */
static long moves_of(const struct seen *cell, int *there)
{
	long sum = 0;
	*there = 0;
	for (int i = 0; i < cell->members_count; i++) {
		sum += peek(&cell->members[i].moves);
		*there |= cell->members[i].doing != NULL;
	}
	return sum;
}

/* The watchdog's look, once a second: whether something stands still. */
static int is_still(void)
{
	static long seen[CELLS_MAX + 1], since[CELLS_MAX + 1];
	for (int i = 0; i <= CELLS_MAX; i++) {
		int there = 1;
		long moves = i == CELLS_MAX ? watched->moves
					    : moves_of(&watched->cells[i], &there);
		if (moves != seen[i] || !there || (i < CELLS_MAX && !watched->cells[i].name)) {
			seen[i] = moves;
			since[i] = 0;
		} else if (++since[i] >= STILL_S) {
			return 1;
		}
	}
	return 0;
}

/* Tells what each cell does and ends the run; WAKES_HOLD=1 leaves it as it is for a debugger. */
static void tell_and_end(pid_t program)
{
	fprintf(stderr, "seed %lu, round %ld: still for %d s; the main thread: %s\n",
		watched->seed, watched->round, STILL_S, watched->doing);
	for (int i = 0; i < CELLS_MAX; i++)
		if (watched->cells[i].name)
			tell_cell(&watched->cells[i]);
	fflush(stderr);
	const char *hold = getenv("WAKES_HOLD");
	if (hold && *hold == '1')
		pause();
	kill(program, SIGABRT);
	_exit(1);
}

/* Starts the watchdog: a child that lives as long as this process. */
static pid_t start_watchdog(void)
{
	pid_t program = getpid(), child = fork();
	CHECK(child >= 0);
	if (child > 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "watchdog");
	while (getppid() == program && !watched->is_over) {
		for (int i = 0; i < 10 && !watched->is_over; i++)
			usleep(100000);
		if (is_still())
			tell_and_end(program);
	}
	_exit(0);
}

#endif
