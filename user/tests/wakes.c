/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * No wake is lost: everything that threads wait in, against everything that wakes them, many at
 * once: threads, kernel threads, signal handlers, timers, other processes.
 *
 *   wakes [SECONDS [SEED]]
 *
 * The seed chooses which pairs come together in a round, how many members each has, of which kind,
 * and how they pass the time. Every pair has its turn before one has a second. A watchdog, another
 * process, tells who waits for what when nothing moves any more. WAKES_ONLY=TEXT: pairs with this
 * text in their name alone.
 *
 * Invariant: a round ends with all its members joined and its counts right.
 */
#include "wakes/exchange.h"
#include "wakes/meet.h"

/* So that a quick run has them all. */
enum { SECONDS = 4, CELLS = 12, ROUND_MS = 400 };
/* In a round; fewer in some rounds of a long run, for members that nobody keeps waiting. */
static int cells_count = CELLS;

enum meeting { MUTEX, RWLOCK, BARRIER, TURNS, TIME, THREADS, PROCESSES, MEETINGS };

static const struct {
	const char *name;
	member_work work;
	int members;
} meetings[] = {
	{ "mutex", lock_mutexes, 4 },	    { "rwlock", lock_rwlocks, 5 },
	{ "barrier", meet, PARTIES },	    { "broadcast", take_turns, 4 },
	{ "time", pass_time, 6 },	    { "threads that end", bear_threads, 2 },
	{ "processes that end", bear_processes, 2 },
};

static struct pair {
	char name[64];
	int kind, wakers; /* wakers: a kind of members, or -1 for a meeting */
} pairs[PAIRS_MAX];
static int pairs_count;
static struct cell *cells;

static void add_pair(int kind, int wakers, const char *left, const char *right)
{
	struct pair *it = &pairs[pairs_count];
	snprintf(it->name, sizeof(it->name), "%s <- %s", left, right);
	const char *only = getenv("WAKES_ONLY");
	if (only && !strstr(it->name, only))
		return;
	it->kind = kind;
	it->wakers = wakers;
	pairs_count++;
}

static void list_pairs(void)
{
	for (int kind = 0; kind < LINK_KINDS; kind++)
		for (int wakers = 0; wakers < MEMBER_KINDS; wakers++)
			if ((wakers != HANDLER || is_for_handlers(kind)) &&
			    (wakers != PROCESS || is_for_processes(kind)))
				add_pair(kind, wakers, link_names[kind], member_names[wakers]);
	for (int kind = 0; kind < MEETINGS; kind++)
		add_pair(kind, -1, meetings[kind].name, "each other");
	CHECK(pairs_count > 0);
}

static void make_objects(struct cell *cell, unsigned long *random)
{
	static const int types[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
				     PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP };
	static const int preferences[] = { PTHREAD_RWLOCK_PREFER_READER_NP,
					   PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP };
	pthread_mutexattr_t mutex;
	pthread_rwlockattr_t rwlock;
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_settype(&mutex, types[below(random, 4)]);
	if (below(random, 3) == 0)
		pthread_mutexattr_setprotocol(&mutex, PTHREAD_PRIO_INHERIT);
	else if (below(random, 3) == 0)
		pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
	pthread_rwlockattr_init(&rwlock);
	pthread_rwlockattr_setkind_np(&rwlock, preferences[below(random, 2)]);
	CHECK_EQ(pthread_mutex_init(&cell->mutex, &mutex), 0);
	CHECK_EQ(pthread_rwlock_init(&cell->rwlock, &rwlock), 0);
	CHECK_EQ(pthread_barrier_init(&cell->barrier, NULL, PARTIES), 0);
	CHECK_EQ(pthread_cond_init(&cell->cond, NULL), 0);
	CHECK_EQ(sem_init(&cell->sem, 0, 0), 0);
}

static void meeting_begin(struct cell *cell, int kind, unsigned long *random)
{
	begin_cell(cell, meetings[kind].name);
	make_objects(cell, random);
	for (int i = 0; i < meetings[kind].members; i++)
		prepare(cell, thread_kind(random), meetings[kind].work, random);
}

static long meeting_end(struct cell *cell)
{
	CHECK_EQ(cell->counted, cell->turns);
	CHECK_EQ(pthread_mutex_destroy(&cell->mutex), 0);
	CHECK_EQ(pthread_rwlock_destroy(&cell->rwlock), 0);
	CHECK_EQ(pthread_barrier_destroy(&cell->barrier), 0);
	CHECK_EQ(pthread_cond_destroy(&cell->cond), 0);
	CHECK_EQ(sem_destroy(&cell->sem), 0);
	return cell->woken;
}

/* The next pair of the deck, which is shuffled when it is through. */
static int next_pair(unsigned long *random)
{
	static int deck[PAIRS_MAX], left;
	if (left == 0) {
		for (; left < pairs_count; left++) {
			int other = below(random, left + 1);
			deck[left] = deck[other];
			deck[other] = left;
		}
	}
	return deck[--left];
}

static void begin(struct cell *cell, int at, unsigned long *random)
{
	memset(cell, 0, sizeof(*cell));
	cell->seen = &watched->cells[at];
	cell->pair = next_pair(random);
	cell->pace = below(random, PACES);
	struct pair *pair = &pairs[cell->pair];
	if (pair->wakers < 0)
		meeting_begin(cell, pair->kind, random);
	else
		exchange_begin(cell, pair->kind, pair->wakers, SIGRTMIN + 2 + 2 * at, random);
	cell->seen->name = pair->name;
}

static void finish(struct cell *cell)
{
	for (int i = 0; i < cell->count; i++) {
		main_does("waits for the members' end");
		end_member(&cell->starts[i]);
	}
	long woken = pairs[cell->pair].wakers < 0 ? meeting_end(cell) : exchange_end(cell);
	watched->pair_wakes[cell->pair] += woken;
	watched->wakes += woken;
	cell->seen->name = NULL;
}

static void pass_round(long ms)
{
	for (long end = now_ms() + ms; now_ms() < end;) {
		main_does("waits for the round's end");
		usleep(20000);
	}
}

static void run_round(unsigned long *random, int is_long)
{
	watched->round++;
	main_does("begins a round");
	if (is_long)
		cells_count = 1 + below(random, CELLS);
	for (int i = 0; i < cells_count; i++)
		begin(&cells[i], i, random);
	for (int i = 0; i < cells_count; i++)
		for (int k = 0; k < cells[i].count; k++)
			start_member(&cells[i].starts[k]);
	main_does("opens the cells");
	for (int i = 0; i < cells_count; i++)
		if (pairs[cells[i].pair].wakers >= 0)
			exchange_open(&cells[i]);
	pass_round(is_long ? 4 * ROUND_MS : ROUND_MS);
	for (int i = 0; i < cells_count; i++)
		__atomic_store_n(&cells[i].is_closing, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < cells_count; i++)
		finish(&cells[i]);
}

/* The main thread takes what goes to the process; signals that are waited for are blocked. */
static void set_signals(unsigned long *random)
{
	sigset_t set;
	sigemptyset(&set);
	for (int i = 0; i < 2 * CELLS; i++)
		sigaddset(&set, SIGRTMIN + 2 + i);
	sigaddset(&set, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	wake_signal = SIGUSR1;
	timer_signal = SIGALRM;
	struct sigaction action = { .sa_handler = on_wake };
	action.sa_flags = below(random, 2) ? SA_RESTART : 0;
	CHECK_EQ(sigaction(wake_signal, &action, NULL), 0);
	action.sa_flags = below(random, 2) ? SA_RESTART : 0;
	CHECK_EQ(sigaction(timer_signal, &action, NULL), 0);
	action.sa_handler = on_token;
	for (int i = 0; i < 2 * CELLS; i++)
		CHECK_EQ(sigaction(SIGRTMIN + 2 + i, &action, NULL), 0);
}

static void tell(long seconds)
{
	if (seconds > SECONDS)
		for (int i = 0; i < pairs_count; i++)
			printf("%12ld  %s\n", watched->pair_wakes[i], pairs[i].name);
	printf("seed %lu: %ld wakes, %ld timeouts in %ld rounds, none lost\n", watched->seed,
	       watched->wakes, watched->timeouts, watched->round);
	fflush(stdout);
}

int main(int count, char **words)
{
	long seconds = count > 1 ? atol(words[1]) : SECONDS;
	unsigned long seed = count > 2 ? strtoul(words[2], NULL, 10)
				       : (unsigned long)now_ms() * 1000 + getpid();
	unsigned long random = seed * 0x9e3779b97f4a7c15 + 1;
	watched = shared_memory(sizeof(*watched));
	cells = shared_memory(CELLS * sizeof(*cells));
	watched->seed = seed;
	fprintf(stderr, "seed %lu\n", seed);
	list_pairs();
	set_signals(&random);
	pid_t watchdog = start_watchdog();
	long end = now_ms() + seconds * 1000;
	while (now_ms() < end)
		run_round(&random, seconds > SECONDS);
	watched->is_over = 1;
	CHECK_EQ(waitpid(watchdog, NULL, 0), watchdog);
	tell(seconds);
	return 0;
}
