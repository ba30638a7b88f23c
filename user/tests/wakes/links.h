/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Links: a token goes one way, from whoever sends it to whoever waits for it, by one of the things
 * that threads wait in.
 *
 * Invariant: every token that is sent is received once: `sent` is counted before a token can be
 * seen, `received` after it was taken, and what tokens carry adds up on both sides. A receive that
 * began with nothing there is a wake.
 */
#ifndef LINKS_H
#define LINKS_H

#include "watch.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum link_kind {
	SEM,
	SEM_TIMED,
	SEM_SHARED,
	COND,
	COND_TIMED,
	COND_SHARED,
	FUTEX,
	FUTEX_TIMED,
	FUTEX_SHARED,
	PIPE,
	SOCKET,
	EVENTFD,
	POLL,
	SELECT,
	EPOLL,
	SIGWAIT,
	SIGWAIT_PROCESS,
	SIGNALFD,
	SIGNALFD_OWN,
	SIGSUSPEND,
	PPOLL,
	LINK_KINDS
};

static const char *const link_names[] = {
	"sem_wait",	"sem_timedwait",     "shared sem_wait", "cond_wait",
	"cond_timedwait", "shared cond_wait", "futex",		"timed futex",
	"shared futex", "pipe",		     "socketpair",	"eventfd",
	"poll",		"select",	     "epoll_wait",	"sigwait",
	"sigwaitinfo",	"signalfd",	     "own signalfd",	"sigsuspend",
	"ppoll for a handler",
};

struct link {
	int kind, is_private;
	long *sent, *received; /* in what the watchdog sees */
	long sum;	       /* of what tokens carry: sent minus received */
	long woken, timeouts;
	sem_t sem;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int tokens; /* under the lock; or the futex's word; or what a handler has seen */
	int ends[2], epoll;
	pthread_t target;
	int has_target, signal;
	pid_t process;
};

/* Those whose signals have handlers, by signal. */
static struct link *handled[_NSIG];

static void on_token(int number)
{
	struct link *it = __atomic_load_n(&handled[number], __ATOMIC_ACQUIRE);
	CHECK(it);
	__atomic_add_fetch(&it->tokens, 1, __ATOMIC_SEQ_CST);
}

/* xorshift64 */
static unsigned long draw(unsigned long *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static long below(unsigned long *state, long limit)
{
	return (long)(draw(state) >> 11) % limit;
}

static int is_descriptor(int kind)
{
	return kind >= PIPE && kind <= EPOLL;
}

/* A signal to the process; the receiver alone does not block it, or waits for it. */
static int is_for_process(int kind)
{
	return kind == SIGWAIT_PROCESS || kind == SIGNALFD || kind == PPOLL;
}

static int is_handled(int kind)
{
	return kind == SIGSUSPEND || kind == PPOLL;
}

/* Whether handlers may send; by one whose receiver is known only later, they may not. */
static int is_for_handlers(int kind)
{
	return kind <= SEM_SHARED || kind == FUTEX || kind == FUTEX_TIMED || kind == FUTEX_SHARED ||
	       is_descriptor(kind) || is_for_process(kind);
}

static int is_for_processes(int kind)
{
	return kind == SEM_SHARED || kind == COND_SHARED || kind == FUTEX_SHARED ||
	       is_descriptor(kind) || is_for_process(kind);
}

/* One receiver, one token at a time. */
static int is_for_one(int kind)
{
	return kind >= SIGWAIT;
}

static void open_ends(struct link *it, int receivers)
{
	int flags = it->kind >= POLL ? O_NONBLOCK : 0;
	if (it->kind == EVENTFD) {
		it->ends[0] = it->ends[1] = eventfd(0, EFD_SEMAPHORE);
		CHECK(it->ends[0] >= 0);
		return;
	}
	if (it->kind == PIPE || it->kind == POLL)
		CHECK_EQ(pipe(it->ends), 0);
	else
		CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, it->ends), 0);
	CHECK_EQ(fcntl(it->ends[0], F_SETFL, flags), 0);
	if (it->kind == EPOLL) {
		/* An edge may be told to somebody who finds the token gone. */
		unsigned edges = receivers == 1 && it->ends[0] % 2 ? EPOLLET : 0;
		struct epoll_event event = { .events = EPOLLIN | edges };
		it->epoll = epoll_create1(0);
		CHECK(it->epoll >= 0);
		CHECK_EQ(epoll_ctl(it->epoll, EPOLL_CTL_ADD, it->ends[0], &event), 0);
	}
}

static void set_of(sigset_t *set, int signal)
{
	sigemptyset(set);
	sigaddset(set, signal);
}

static void link_open(struct link *it, int kind, int receivers, int signal)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;
	int shared = kind == SEM_SHARED || kind == COND_SHARED;
	it->kind = kind;
	it->is_private = kind == FUTEX_SHARED ? 0 : FUTEX_PRIVATE_FLAG;
	it->signal = signal;
	it->ends[0] = it->ends[1] = it->epoll = -1;
	CHECK_EQ(sem_init(&it->sem, shared, 0), 0);
	pthread_mutexattr_init(&mutex);
	pthread_condattr_init(&cond);
	pthread_mutexattr_setpshared(&mutex, shared);
	pthread_condattr_setpshared(&cond, shared);
	CHECK_EQ(pthread_mutex_init(&it->lock, &mutex), 0);
	CHECK_EQ(pthread_cond_init(&it->cond, &cond), 0);
	it->process = getpid();
	if (is_descriptor(kind))
		open_ends(it, receivers);
	if (is_handled(kind))
		__atomic_store_n(&handled[signal], it, __ATOMIC_RELEASE);
	if (kind == SIGNALFD || kind == SIGNALFD_OWN) {
		sigset_t set;
		set_of(&set, signal);
		it->ends[0] = signalfd(-1, &set, SFD_CLOEXEC);
		CHECK(it->ends[0] >= 0);
	}
}

static void link_close(struct link *it)
{
	for (int i = 0; i < 2; i++)
		if (it->ends[i] >= 0 && (i == 0 || it->ends[1] != it->ends[0]))
			close(it->ends[i]);
	if (it->epoll >= 0)
		close(it->epoll);
	CHECK_EQ(pthread_cond_destroy(&it->cond), 0);
	CHECK_EQ(pthread_mutex_destroy(&it->lock), 0);
	CHECK_EQ(sem_destroy(&it->sem), 0);
}

/* The receiver of signals says who it is. */
static void link_receiver(struct link *it)
{
	it->target = pthread_self();
	__atomic_store_n(&it->has_target, 1, __ATOMIC_RELEASE);
}

static long futex(struct link *it, int operation, int value, const struct timespec *timeout)
{
	return syscall(SYS_futex, &it->tokens, operation | it->is_private, value, timeout, NULL, -1);
}

static void link_signal(struct link *it)
{
	if (is_for_process(it->kind)) {
		CHECK_EQ(kill(it->process, it->signal), 0);
		return;
	}
	while (!__atomic_load_n(&it->has_target, __ATOMIC_ACQUIRE))
		sched_yield();
	CHECK_EQ(pthread_kill(it->target, it->signal), 0);
}

static void link_write(struct link *it, long value)
{
	/* What an eventfd carries is added up, one by one. */
	long carried = it->kind == EVENTFD ? 1 : value;
	ssize_t done;
	__atomic_add_fetch(&it->sum, carried, __ATOMIC_RELAXED);
	do
		done = write(it->ends[1], &carried, sizeof(carried));
	while (done < 0 && errno == EINTR);
	CHECK_EQ(done, sizeof(carried));
}

static void link_send(struct link *it, long value)
{
	__atomic_add_fetch(it->sent, 1, __ATOMIC_SEQ_CST);
	switch (it->kind) {
	case SEM ... SEM_SHARED:
		CHECK_EQ(sem_post(&it->sem), 0);
		break;
	case COND ... COND_SHARED:
		CHECK_EQ(pthread_mutex_lock(&it->lock), 0);
		it->tokens++;
		if (value % 2)
			CHECK_EQ(pthread_cond_signal(&it->cond), 0);
		CHECK_EQ(pthread_mutex_unlock(&it->lock), 0);
		if (value % 2 == 0)
			CHECK_EQ(pthread_cond_signal(&it->cond), 0);
		break;
	case FUTEX ... FUTEX_SHARED:
		__atomic_add_fetch(&it->tokens, 1, __ATOMIC_SEQ_CST);
		CHECK(futex(it, FUTEX_WAKE, 1, NULL) >= 0);
		break;
	case SIGWAIT ... PPOLL:
		link_signal(it);
		break;
	default:
		link_write(it, value);
	}
}

/* A moment soon, which may be past before anybody waits. */
static struct timespec soon(clockid_t clock, unsigned long *random)
{
	struct timespec at;
	clock_gettime(clock, &at);
	at.tv_nsec += below(random, below(random, 8) ? 300000 : 5000000);
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
}

/* No timeout comes before its moment. */
static void is_past(clockid_t clock, const struct timespec *at)
{
	struct timespec now;
	clock_gettime(clock, &now);
	CHECK(now.tv_sec > at->tv_sec || (now.tv_sec == at->tv_sec && now.tv_nsec >= at->tv_nsec));
}

static void timed_out(struct link *it, const struct timespec *at)
{
	is_past(CLOCK_REALTIME, at);
	__atomic_add_fetch(&it->timeouts, 1, __ATOMIC_RELAXED);
}

static void take_sem(struct link *it, unsigned long *random)
{
	for (;;) {
		struct timespec at = soon(CLOCK_REALTIME, random);
		int is_timed = it->kind == SEM_TIMED;
		if ((is_timed ? sem_timedwait(&it->sem, &at) : sem_wait(&it->sem)) == 0)
			return;
		if (errno == ETIMEDOUT && is_timed)
			timed_out(it, &at);
		else
			CHECK_EQ(errno, EINTR);
	}
}

static void take_cond(struct link *it, unsigned long *random)
{
	CHECK_EQ(pthread_mutex_lock(&it->lock), 0);
	while (it->tokens == 0) {
		struct timespec at = soon(CLOCK_REALTIME, random);
		int error = it->kind == COND_TIMED
				    ? pthread_cond_timedwait(&it->cond, &it->lock, &at)
				    : pthread_cond_wait(&it->cond, &it->lock);
		if (error == ETIMEDOUT && it->kind == COND_TIMED)
			timed_out(it, &at);
		else
			CHECK_EQ(error, 0);
	}
	it->tokens--;
	CHECK_EQ(pthread_mutex_unlock(&it->lock), 0);
}

static void take_futex(struct link *it, unsigned long *random)
{
	for (;;) {
		int tokens = __atomic_load_n(&it->tokens, __ATOMIC_SEQ_CST);
		while (tokens > 0)
			if (__atomic_compare_exchange_n(&it->tokens, &tokens, tokens - 1, 0,
							__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
				return;
		struct timespec at = soon(CLOCK_REALTIME, random);
		int operation = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
		if (futex(it, operation, 0, it->kind == FUTEX_TIMED ? &at : NULL) == 0)
			continue;
		if (errno == ETIMEDOUT && it->kind == FUTEX_TIMED)
			timed_out(it, &at);
		else
			CHECK(errno == EINTR || errno == EAGAIN);
	}
}

/* Waits until a token may be there. */
static void await_descriptor(struct link *it)
{
	struct pollfd asked = { .fd = it->ends[0], .events = POLLIN };
	struct epoll_event event;
	fd_set set;
	int count = 1;
	FD_ZERO(&set);
	FD_SET(it->ends[0], &set);
	if (it->kind == POLL)
		count = poll(&asked, 1, -1);
	else if (it->kind == SELECT)
		count = select(it->ends[0] + 1, &set, NULL, NULL, NULL);
	else if (it->kind == EPOLL)
		count = epoll_wait(it->epoll, &event, 1, -1);
	CHECK(count == 1 || (count == -1 && errno == EINTR));
}

static void take_descriptor(struct link *it)
{
	long value;
	for (;;) {
		ssize_t done = read(it->ends[0], &value, sizeof(value));
		if (done >= 0) {
			CHECK_EQ(done, sizeof(value));
			__atomic_sub_fetch(&it->sum, value, __ATOMIC_RELAXED);
			return;
		}
		CHECK(errno == EINTR || (errno == EAGAIN && it->kind >= POLL));
		if (errno == EAGAIN)
			await_descriptor(it);
	}
}

static void take_waited_signal(struct link *it, const sigset_t *set)
{
	int number;
	if (it->kind == SIGWAIT) {
		CHECK_EQ(sigwait(set, &number), 0);
	} else {
		siginfo_t info;
		while ((number = sigwaitinfo(set, &info)) < 0)
			CHECK_EQ(errno, EINTR);
	}
	CHECK_EQ(number, it->signal);
}

static void take_read_signal(struct link *it)
{
	struct signalfd_siginfo info;
	struct pollfd entry = { .fd = it->ends[0], .events = POLLIN };
	ssize_t done;
	while (*it->received % 2 && (done = poll(&entry, 1, -1)) != 1)
		CHECK_EQ(errno, EINTR);
	while ((done = read(it->ends[0], &info, sizeof(info))) < 0)
		CHECK_EQ(errno, EINTR);
	CHECK_EQ(done, sizeof(info));
	CHECK_EQ(info.ssi_signo, it->signal);
}

/* The handler runs in the wait alone. */
static void take_handled_signal(struct link *it)
{
	sigset_t let;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &let), 0);
	CHECK_EQ(sigdelset(&let, it->signal), 0);
	while (__atomic_load_n(&it->tokens, __ATOMIC_SEQ_CST) == 0) {
		int done = it->kind == PPOLL ? ppoll(NULL, 0, NULL, &let) : sigsuspend(&let);
		CHECK_EQ(done, -1);
		CHECK_EQ(errno, EINTR);
	}
	__atomic_sub_fetch(&it->tokens, 1, __ATOMIC_SEQ_CST);
}

static void take_signal(struct link *it)
{
	sigset_t set;
	set_of(&set, it->signal);
	if (is_handled(it->kind))
		take_handled_signal(it);
	else if (it->kind == SIGNALFD || it->kind == SIGNALFD_OWN)
		take_read_signal(it);
	else
		take_waited_signal(it, &set);
}

/* Takes a token; which one of all that were received. */
static long link_receive(struct link *it, unsigned long *random)
{
	int must_wait = peek(it->sent) <= peek(it->received);
	if (it->kind <= SEM_SHARED)
		take_sem(it, random);
	else if (it->kind <= COND_SHARED)
		take_cond(it, random);
	else if (it->kind <= FUTEX_SHARED)
		take_futex(it, random);
	else if (is_descriptor(it->kind))
		take_descriptor(it);
	else
		take_signal(it);
	__atomic_add_fetch(&it->woken, must_wait, __ATOMIC_RELAXED);
	return __atomic_add_fetch(it->received, 1, __ATOMIC_SEQ_CST);
}

#endif
