/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * SIGURG, by which heddle preempts threads, is the program's like any other signal: what it sets it
 * is told, its handler is called for what is sent and for nothing else, and threads that spin leave
 * others their turn all the same.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

enum { SPINNERS = 6, SPIN_MS = 150 };
static int came, is_over;

static int load_value(int *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void on_signal(int signal)
{
	CHECK_EQ(signal, SIGURG);
	__atomic_fetch_add(&came, 1, __ATOMIC_ACQ_REL);
}

static void *spins(void *unused)
{
	while (!load_value(&is_over)) {
	}
	return unused;
}

static void *ends(void *unused)
{
	return unused;
}

/* More threads spin than there are processors; one that comes later ends before them. */
static void spin_together(void)
{
	pthread_t spinners[SPINNERS];
	set_value(&is_over, 0);
	for (int i = 0; i < SPINNERS; i++)
		spinners[i] = start_thread(spins, NULL);
	sleep_ms(SPIN_MS);
	join_thread(start_thread(ends, NULL));
	set_value(&is_over, 1);
	for (int i = 0; i < SPINNERS; i++)
		join_thread(spinners[i]);
}

static void expect(void (*handler)(int))
{
	struct sigaction told;
	CHECK_EQ(sigaction(SIGURG, NULL, &told), 0);
	CHECK(told.sa_handler == handler);
}

/* Who handles it may be another thread. */
static void expect_one_more(int before)
{
	while (load_value(&came) == before)
		sleep_ms(1);
	CHECK_EQ(load_value(&came), before + 1);
}

static void *raises(void *unused)
{
	int before = load_value(&came);
	CHECK_EQ(raise(SIGURG), 0);
	CHECK_EQ(load_value(&came), before + 1);
	return unused;
}

int main(void)
{
	join_thread(start_thread(ends, NULL));
	expect(SIG_DFL);
	CHECK_EQ(kill(getpid(), SIGURG), 0);
	CHECK(signal(SIGURG, SIG_IGN) == SIG_DFL);
	expect(SIG_IGN);
	spin_together();

	struct sigaction action = { .sa_handler = on_signal }, old;
	CHECK_EQ(sigaction(SIGURG, &action, &old), 0);
	CHECK(old.sa_handler == SIG_IGN);
	expect(on_signal);
	spin_together();
	CHECK_EQ(load_value(&came), 0);
	CHECK_EQ(kill(getpid(), SIGURG), 0);
	expect_one_more(0);
	join_thread(start_thread(raises, NULL));
	CHECK_EQ(load_value(&came), 2);

	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		expect(on_signal);
		raises(NULL);
		CHECK(signal(SIGURG, SIG_DFL) == on_signal);
		expect(SIG_DFL);
		CHECK_EQ(raise(SIGURG), 0);
		_exit(load_value(&came));
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	expect(on_signal);
	CHECK(signal(SIGURG, SIG_DFL) == on_signal);
	spin_together();
	CHECK_EQ(load_value(&came), 2);
	return 0;
}
