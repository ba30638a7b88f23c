/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that looks up a name, of a server that does not answer, runs handlers meanwhile, which
 * find that it can be cancelled, and may jump; and it leaves the look-up when it is cancelled. In
 * a mount namespace of the program's own, with an /etc/resolv.conf that names a socket of the
 * program's.
 */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/socket.h>

/* This machine, by a number of this process's own. */
static char server[INET_ADDRSTRLEN];
/* Longer than the test takes, and than it may. */
#define PATIENCE_S 25
#define SOON_S 12

static sem_t handled, cleaned;

static sigjmp_buf back;

static void handler(int signal)
{
	int state;

	(void)signal;
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state), 0);
	CHECK_EQ(state, PTHREAD_CANCEL_ENABLE);
	CHECK_EQ(sem_post(&handled), 0);
}

static void on_jump(int signal)
{
	handler(signal);
	siglongjmp(back, 1);
}

static void cleanup(void *arg)
{
	CHECK_EQ(sem_post(arg), 0);
}

static void *looks_up(void *arg)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;

	pthread_cleanup_push(cleanup, &cleaned);
	getaddrinfo("name.heddle.test.", "80", &hints, &found);
	pthread_cleanup_pop(1);
	return arg;
}

/* The older way, in which handlers run, too. */
static void *looks_up_as_of_old(void *arg)
{
	struct hostent entry, *found;
	char buffer[1024];
	int error;

	gethostbyname_r("older.heddle.test.", &entry, buffer, sizeof(buffer), &found, &error);
	CHECK_EQ(sem_post(&cleaned), 0);
	return arg;
}

static void *jumps(void *arg)
{
	struct hostent entry, *found;
	char buffer[1024];
	int error;

	if (sigsetjmp(back, 1) == 0)
		gethostbyname_r("left.heddle.test.", &entry, buffer, sizeof(buffer), &found,
				&error);
	sleep(PATIENCE_S);
	return arg;
}

static int silent_server(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(53) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	CHECK(fd >= 0);
	address.sin_addr.s_addr = htonl(127u << 24 | (getpid() & 0xFFFFFF));
	CHECK(inet_ntop(AF_INET, &address.sin_addr, server, sizeof(server)));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		SKIP("no port of a name server");
	return fd;
}

static void name_server(void)
{
	char path[] = "/tmp/heddle-resolv-XXXXXX";
	int fd = mkstemp(path);
	bool is_there;

	CHECK(fd >= 0);
	CHECK(dprintf(fd, "nameserver %s\noptions timeout:%d attempts:1\n", server, PATIENCE_S) > 0);
	CHECK_EQ(close(fd), 0);
	is_there = unshare(CLONE_NEWNS) == 0
		&& mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
		&& mount(path, "/etc/resolv.conf", NULL, MS_BIND, NULL) == 0;
	CHECK_EQ(unlink(path), 0);
	if (!is_there)
		SKIP("no mount namespace, or no /etc/resolv.conf");
}

static void wait_for_question(int fd)
{
	struct timeval soon = { .tv_sec = SOON_S };
	char question[512];

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)), 0);
	if (recv(fd, question, sizeof(question), 0) <= 0)
		SKIP("names are not looked up by DNS here");
}

int main(void)
{
	struct sigaction action = { .sa_handler = handler };
	pthread_t thread;
	void *result;
	int fd = silent_server();
	long begin;

	name_server();
	CHECK_EQ(sem_init(&handled, 0, 0), 0);
	CHECK_EQ(sem_init(&cleaned, 0, 0), 0);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	thread = start_thread(looks_up, NULL);
	wait_for_question(fd);
	begin = now_ms();
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	CHECK_EQ(sem_wait(&handled), 0);
	CHECK_EQ(sem_trywait(&cleaned), -1);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_EQ(sem_trywait(&cleaned), 0);
	CHECK(now_ms() - begin <= SOON_S * 1000);
	thread = start_thread(looks_up_as_of_old, NULL);
	wait_for_question(fd);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	CHECK_EQ(sem_wait(&handled), 0);
	CHECK_EQ(sem_trywait(&cleaned), -1);
	CHECK(signal(SIGUSR1, on_jump) != SIG_ERR);
	thread = start_thread(jumps, NULL);
	wait_for_question(fd);
	begin = now_ms();
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	CHECK_EQ(sem_wait(&handled), 0);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK(now_ms() - begin <= SOON_S * 1000);
	/* A look-up that was left, or is not over, does no harm at the end of the process. */
	return 0;
}
