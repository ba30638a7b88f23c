/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What a handler with SA_RESTART makes of a wait in the middle: one with a deadline fails with
 * EINTR, for the kernel does not go on with such; one without goes on; and a call of which a part
 * was moved says how much, whatever the handler wants.
 */
#define _GNU_SOURCE
#include "kill_until.h"
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

enum { MUCH = 4 << 20, SENDS = 2, RECEIVES = 6 };

static sem_t sem;
static int private_word, *shared_word, seen, ready;
static char *bytes;
static int pipe_ends[2], sockets[2];
static struct sockaddr_un crowded = { .sun_family = AF_UNIX };
static socklen_t crowded_length = sizeof(sa_family_t);

static void on_signal(int number)
{
	(void)number;
	add_value(&seen, 1);
}

static struct timespec in_an_hour(clockid_t clock)
{
	struct timespec at;
	CHECK_EQ(clock_gettime(clock, &at), 0);
	at.tv_sec += 3600;
	return at;
}

static long timed_sem(void)
{
	struct timespec at = in_an_hour(CLOCK_REALTIME);
	return sem_timedwait(&sem, &at);
}

static long clock_sem(void)
{
	struct timespec at = in_an_hour(CLOCK_MONOTONIC);
	return sem_clockwait(&sem, CLOCK_MONOTONIC, &at);
}

static long timed_futex(void)
{
	struct timespec time = { 3600, 0 };
	return syscall(SYS_futex, &private_word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0);
}

static long moment_futex(void)
{
	struct timespec at = in_an_hour(CLOCK_MONOTONIC);
	return syscall(SYS_futex, &private_word, FUTEX_WAIT_BITSET_PRIVATE, 0, &at, NULL, 1);
}

static long shared_futex(void)
{
	struct timespec time = { 3600, 0 };
	return syscall(SYS_futex, shared_word, FUTEX_WAIT, 0, &time, NULL, 0);
}

/* A listener with as many connections as it takes: who wants one more waits. */
static void make_crowd(void)
{
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), first = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_EQ(bind(listener, (struct sockaddr *)&crowded, crowded_length), 0);
	crowded_length = sizeof crowded;
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&crowded, &crowded_length), 0);
	CHECK_EQ(listen(listener, 0), 0);
	CHECK_EQ(connect(first, (struct sockaddr *)&crowded, crowded_length), 0);
}

static long timed_connect(void)
{
	struct timeval time = { 3600, 0 };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time), 0);
	return connect(fd, (struct sockaddr *)&crowded, crowded_length);
}

static long timed_accept(void)
{
	struct timeval time = { 3600, 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time), 0);
	CHECK_EQ(listen(fd, 1), 0);
	return accept(fd, NULL, NULL);
}

static long (*const timed[])(void) = { timed_sem, clock_sem, timed_futex, moment_futex,
				       shared_futex, timed_connect, timed_accept };

static void *fails(void *arg)
{
	long (*call)(void) = *(long (*const *)(void))arg;
	add_value(&ready, 1);
	CHECK_EQ(call(), -1);
	CHECK_EQ(errno, EINTR);
	add_value(&ready, 1);
	return NULL;
}

static long plain_sem(void)
{
	return sem_wait(&sem);
}

static long plain_futex(void)
{
	return syscall(SYS_futex, &private_word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static long plain_shared(void)
{
	return syscall(SYS_futex, shared_word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void release(int index)
{
	int *words[] = { NULL, &private_word, shared_word };
	if (index == 0) {
		CHECK_EQ(sem_post(&sem), 0);
		return;
	}
	__atomic_store_n(words[index], 1, __ATOMIC_SEQ_CST);
	CHECK(syscall(SYS_futex, words[index], index == 1 ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE, 1,
		      NULL, NULL, 0) >= 0);
	/* The other waits are over. */
	__atomic_store_n(words[index], 0, __ATOMIC_SEQ_CST);
}

static long (*const plain[])(void) = { plain_sem, plain_futex, plain_shared };

static void *goes_on(void *arg)
{
	long (*call)(void) = *(long (*const *)(void))arg;
	add_value(&ready, 1);
	/* A futex may see the word before it is woken. */
	CHECK(call() == 0 || errno == EAGAIN);
	add_value(&ready, 1);
	return NULL;
}

static long write_all(void)
{
	return write(pipe_ends[1], bytes, MUCH);
}

static long writev_all(void)
{
	struct iovec parts[] = { { bytes, MUCH / 2 }, { bytes + MUCH / 2, MUCH / 2 } };
	return writev(pipe_ends[1], parts, 2);
}

static long send_all(void)
{
	return send(sockets[1], bytes, MUCH, 0);
}

static long write_socket(void)
{
	return write(sockets[1], bytes, MUCH);
}

static long send_message(void)
{
	struct iovec parts[] = { { bytes, MUCH / 2 }, { bytes + MUCH / 2, MUCH / 2 } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	return sendmsg(sockets[1], &message, 0);
}

static long send_several(void)
{
	struct iovec part = { bytes, MUCH / 2 };
	struct mmsghdr messages[2] = { { { .msg_iov = &part, .msg_iovlen = 1 }, 0 },
				       { { .msg_iov = &part, .msg_iovlen = 1 }, 0 } };
	CHECK_EQ(sendmmsg(sockets[1], messages, 2, 0), 1);
	return messages[0].msg_len;
}

static long receive_all(void)
{
	return recv(sockets[1], bytes, MUCH, MSG_WAITALL);
}

static long receive_from(void)
{
	return recvfrom(sockets[1], bytes, MUCH, MSG_WAITALL, NULL, NULL);
}

static long receive_message(void)
{
	struct iovec part = { bytes, MUCH };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	return recvmsg(sockets[1], &message, MSG_WAITALL);
}

static long receive_several(void)
{
	struct iovec part = { bytes, MUCH };
	struct mmsghdr messages[2] = { { { .msg_iov = &part, .msg_iovlen = 1 }, 0 },
				       { { .msg_iov = &part, .msg_iovlen = 1 }, 0 } };
	CHECK_EQ(recvmmsg(sockets[1], messages, 2, 0, NULL), 1);
	return messages[0].msg_len;
}

/* Two for a pipe, four that send, and then those that receive. */
static long (*const moved[])(void) = { write_all,    writev_all,   send_all,	       write_socket,
				       send_message, send_several, receive_all,	       receive_from,
				       receive_message, receive_several };

static void *tells_part(void *arg)
{
	long (*call)(void) = *(long (*const *)(void))arg;
	add_value(&ready, 1);
	long count = call();
	CHECK(count > 0 && count < MUCH);
	add_value(&ready, 1);
	return (void *)count;
}

/* What a call has moved is what is there. */
static void drain(int fd, long count)
{
	static char buffer[1 << 16];
	while (count > 0) {
		long got = read(fd, buffer, count < (long)sizeof buffer ? count : (long)sizeof buffer);
		CHECK(got > 0);
		count -= got;
	}
	CHECK_EQ(recv(fd, buffer, 1, MSG_DONTWAIT), -1);
	CHECK(errno == EAGAIN || errno == ENOTSOCK);
}

static void ends_in_the_middle(unsigned i)
{
	pthread_t thread;
	void *count;

	ready = 0;
	CHECK_EQ(pipe(pipe_ends), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	thread = start_thread(tells_part, (void *)&moved[i]);
	if (i >= RECEIVES)
		CHECK_EQ(send(sockets[0], bytes, 1000, 0), 1000);
	await_value(&ready, 1);
	/* By then it has moved what there is room for. */
	sleep_ms(300);
	kill_until(thread, SIGUSR1, &ready, 2);
	CHECK_EQ(pthread_join(thread, &count), 0);
	if (i >= RECEIVES)
		CHECK_EQ((long)count, 1000);
	else if (i < SENDS)
		CHECK((long)count >= 4096);
	else
		drain(sockets[0], (long)count);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	close(sockets[0]);
	close(sockets[1]);
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	pthread_t thread;

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(sem_init(&sem, 0, 0), 0);
	shared_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared_word != MAP_FAILED);
	bytes = calloc(1, MUCH);
	CHECK(bytes);
	make_crowd();

	for (unsigned i = 0; i < sizeof timed / sizeof *timed; i++) {
		ready = 0;
		thread = start_thread(fails, (void *)&timed[i]);
		await_value(&ready, 1);
		kill_until(thread, SIGUSR1, &ready, 2);
		join_thread(thread);
	}
	for (unsigned i = 0; i < sizeof plain / sizeof *plain; i++) {
		ready = 0;
		thread = start_thread(goes_on, (void *)&plain[i]);
		await_value(&ready, 1);
		for (int j = 0; j < 3; j++) {
			sleep_ms(20);
			int before = add_value(&seen, 0);
			CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
			await_value(&seen, before + 1);
		}
		sleep_ms(20);
		CHECK_EQ(add_value(&ready, 0), 1);
		release(i);
		join_thread(thread);
	}
	for (unsigned i = 0; i < sizeof moved / sizeof *moved; i++)
		ends_in_the_middle(i);
	return 0;
}
