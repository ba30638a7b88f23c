/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The main thread ends by pthread_exit, and what the C library calls by threads of its own comes
 * after that: by a timer, for a message queue, for asynchronous input. Each in a child of its own;
 * the process ends by what is called.
 */
#define _GNU_SOURCE
#include "check.h"
#include <aio.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <sys/wait.h>

#define ENDED 5

static struct sigevent event;
static int ticks;

static void ticked(union sigval value)
{
	(void)value;
	if (++ticks == 3)
		exit(ENDED);
}

static void called(union sigval value)
{
	(void)value;
	exit(ENDED);
}

static void *passes(void *arg)
{
	return arg;
}

static void by_timer(void)
{
	struct itimerspec often = { { 0, 30000000 }, { 0, 30000000 } };
	timer_t timer;

	event.sigev_notify_function = ticked;
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
}

static void by_timer_beside_a_thread(void)
{
	by_timer();
	start_thread(passes, NULL);
}

static void by_message(void)
{
	struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	char name[64];

	snprintf(name, sizeof(name), "/heddle-notified-%d", getpid());
	mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
	if (queue == (mqd_t)-1) {
		printf("skip: no queues of messages: error %d\n", errno);
		exit(ENDED);
	}
	CHECK_EQ(mq_unlink(name), 0);
	CHECK_EQ(mq_notify(queue, &event), 0);
	pid_t sender = fork();
	CHECK(sender >= 0);
	if (sender == 0) {
		usleep(50000);
		_exit(mq_send(queue, "x", 1, 0) != 0);
	}
}

static void by_input(void)
{
	static struct aiocb request;
	static char byte;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	request.aio_fildes = ends[0];
	request.aio_buf = &byte;
	request.aio_nbytes = 1;
	request.aio_sigevent = event;
	CHECK_EQ(aio_read(&request), 0);
	pid_t writer = fork();
	CHECK(writer >= 0);
	if (writer == 0) {
		usleep(50000);
		_exit(write(ends[1], "x", 1) != 1);
	}
}

static void in_child(void (*begins)(void))
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		begins();
		pthread_exit(NULL);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, ENDED << 8);
}

int main(void)
{
	event.sigev_notify = SIGEV_THREAD;
	event.sigev_notify_function = called;
	in_child(by_timer);
	in_child(by_timer_beside_a_thread);
	in_child(by_message);
	in_child(by_input);
	return 0;
}
