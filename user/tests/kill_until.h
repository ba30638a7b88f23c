/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * kill_until.h - ends a call of another thread by a signal.
 *
 * A thread can say that it is about to wait, and not that it waits: on a busy machine it may lose
 * the processor in between, for longer than anybody sleeps. A signal that comes then ends nothing,
 * so it is sent again, and may end the next call, too. Whoever is sent it counts at least one, and
 * says by a word that grows that it goes on.
 */
#ifndef KILL_UNTIL_H
#define KILL_UNTIL_H

#include "check.h"
#include <signal.h>

static void kill_until(pthread_t thread, int number, int *word, int value)
{
	for (long ms = 20; __atomic_load_n(word, __ATOMIC_SEQ_CST) < value; ms *= 2) {
		CHECK_EQ(pthread_kill(thread, number), 0);
		long end = now_ms() + ms;
		while (__atomic_load_n(word, __ATOMIC_SEQ_CST) < value && now_ms() < end)
			sleep_ms(1);
	}
}

#endif
