/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Tokens go there by one link, and each lets a credit come back by another.
 *
 * Invariant: at most `credit` tokens are on the way. Closing: a producer leaves with a credit in
 * its hand; the last of them notes how many tokens there were and sends one more to each consumer;
 * a consumer leaves with a token that is beyond that number.
 *
 * With handlers as wakers the producer sends a signal, or arms a timer, and the handler sends the
 * token, on whatever thread it runs: in the middle of what that thread waits in.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "cells.h"

static struct cell *exchanges[CELLS_MAX]; /* those whose tokens handlers send */

static void on_wake(int number)
{
	int saved = errno;
	for (int i = 0; i < CELLS_MAX; i++) {
		struct cell *cell = __atomic_load_n(&exchanges[i], __ATOMIC_ACQUIRE);
		if (cell && cell->by_timer == (number == timer_signal) &&
		    __atomic_exchange_n(&cell->pending, 0, __ATOMIC_SEQ_CST))
			link_send(&cell->there, 1);
	}
	errno = saved;
}

/* Whom the signal interrupts: any thread of the cell, but for the producer itself mostly. */
static pthread_t victim_of(struct cell *cell, unsigned long *random)
{
	int at = below(random, 4) ? cell->producers : 0;
	return cell->starts[at].thread;
}

static void trigger(struct cell *cell, unsigned long *random)
{
	__atomic_store_n(&cell->pending, 1, __ATOMIC_SEQ_CST);
	if (cell->by_timer) {
		struct itimerspec at = { .it_value.tv_nsec = 1 + below(random, 200000) };
		CHECK_EQ(timer_settime(cell->timer, 0, &at, NULL), 0);
	} else {
		CHECK_EQ(pthread_kill(victim_of(cell, random), wake_signal), 0);
	}
}

static void leave(struct cell *cell)
{
	if (__atomic_sub_fetch(&cell->left, 1, __ATOMIC_SEQ_CST) > 0)
		return;
	cell->last = peek(cell->there.sent);
	__atomic_store_n(&cell->is_closed, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < cell->consumers; i++)
		link_send(&cell->there, 0);
}

static void produce(struct cell *cell, struct member *me, unsigned long *random)
{
	if (is_for_one(cell->back.kind))
		link_receiver(&cell->back);
	for (;;) {
		doing(me, "waits for a credit");
		link_receive(&cell->back, random);
		if (is_closing(cell))
			break;
		doing(me, "sends a token");
		dawdle(cell, random);
		if (cell->wakers == HANDLER)
			trigger(cell, random);
		else
			link_send(&cell->there, below(random, 1000));
	}
	doing(me, "leaves");
	leave(cell);
}

static void consume(struct cell *cell, struct member *me, unsigned long *random)
{
	if (is_for_one(cell->there.kind))
		link_receiver(&cell->there);
	for (;;) {
		doing(me, "waits for a token");
		long number = link_receive(&cell->there, random);
		if (__atomic_load_n(&cell->is_closed, __ATOMIC_SEQ_CST) && number > cell->last)
			break;
		doing(me, "sends a credit");
		dawdle(cell, random);
		link_send(&cell->back, below(random, 1000));
	}
}

/* A kind for the way back that fits what the cell is. */
static int kind_back(struct cell *cell, unsigned long *random)
{
	for (;;) {
		int kind = below(random, LINK_KINDS);
		if (is_for_one(kind) && cell->credit > 1)
			continue;
		/* Signals go to the main thread's process, not to the producer. */
		if (cell->wakers == PROCESS && (!is_for_processes(kind) || is_for_process(kind)))
			continue;
		return kind;
	}
}

static void choose_numbers(struct cell *cell, int kind, unsigned long *random)
{
	cell->producers = cell->consumers = cell->credit = 1;
	if (below(random, 2) && !is_for_one(kind) && cell->wakers != HANDLER) {
		cell->producers = 1 + below(random, 3);
		cell->consumers = 1 + below(random, 3);
		cell->credit = cell->producers + below(random, 4);
	}
	cell->left = cell->producers;
}

static void make_timer(struct cell *cell)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = timer_signal };
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &cell->timer), 0);
}

/* `signals`: two of the cell's own. */
static void exchange_begin(struct cell *cell, int kind, int wakers, int signals,
			   unsigned long *random)
{
	begin_cell(cell, "exchange");
	cell->wakers = wakers;
	/* A thread that waits in the kernel runs its handlers when it goes on: heddle-run(1). */
	cell->by_timer = wakers == HANDLER &&
			 (kind == SEM_SHARED || kind == FUTEX_SHARED || below(random, 2));
	choose_numbers(cell, kind, random);
	struct link *links[] = { &cell->there, &cell->back };
	int kinds[] = { kind, kind_back(cell, random) };
	int receivers[] = { cell->consumers, cell->producers };
	for (int i = 0; i < 2; i++) {
		links[i]->sent = &cell->seen->sent[i];
		links[i]->received = &cell->seen->received[i];
		link_open(links[i], kinds[i], receivers[i], signals + i);
		cell->seen->links[i] = link_names[kinds[i]];
	}
	for (int i = 0; i < cell->producers; i++) {
		if (wakers == PROCESS)
			add_process(cell, produce, random);
		else if (wakers == HANDLER)
			prepare(cell, thread_kind(random), produce, random);
		else
			prepare(cell, wakers, produce, random);
	}
	for (int i = 0; i < cell->consumers; i++)
		prepare(cell, thread_kind(random), consume, random);
	if (cell->by_timer)
		make_timer(cell);
	if (wakers == HANDLER)
		__atomic_store_n(&exchanges[cell->seen - watched->cells], cell, __ATOMIC_RELEASE);
}

/* When all members are there: the first credits. */
static void exchange_open(struct cell *cell)
{
	for (int i = 0; i < cell->credit; i++)
		link_send(&cell->back, 0);
}

static long exchange_end(struct cell *cell)
{
	struct seen *seen = cell->seen;
	if (cell->wakers == HANDLER)
		__atomic_store_n(&exchanges[seen - watched->cells], NULL, __ATOMIC_RELEASE);
	if (cell->by_timer)
		timer_delete(cell->timer);
	CHECK_EQ(seen->received[0], cell->last + cell->consumers);
	CHECK_EQ(seen->received[0], seen->sent[0]);
	CHECK_EQ(cell->there.sum, 0);
	CHECK_EQ(seen->sent[1], cell->last + cell->credit);
	CHECK_EQ(seen->received[1], cell->last + cell->producers);
	watched->timeouts += cell->there.timeouts + cell->back.timeouts;
	link_close(&cell->there);
	link_close(&cell->back);
	return cell->there.woken + cell->back.woken;
}

#endif
