/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * libuv: a loop in a thread that its pool's threads send their results to, by an eventfd in an
 * epoll set, and its locks, semaphores and barriers. The library is loaded by name, so that its
 * headers are not needed: objects get more room than they want.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

#define WORKS 200
#define THREADS 6

typedef union { char room[2048]; void *data; long align; } any;

static int (*loop_init)(any *), (*loop_run)(any *, int), (*loop_close)(any *);
static int (*queue_work)(any *loop, any *work, void (*run)(any *), void (*after)(any *, int));
static int (*async_init)(any *loop, any *async, void (*called)(any *)), (*async_send)(any *);
static int (*timer_init)(any *, any *);
static int (*timer_start)(any *, void (*)(any *), uint64_t, uint64_t);
static void (*close_handle)(any *, void (*)(any *));
static int (*thread_create)(pthread_t *, void (*)(void *), void *), (*thread_join)(pthread_t *);
static int (*sem_init_)(any *, unsigned), (*barrier_init)(any *, unsigned), (*barrier_wait)(any *);
static void (*sem_wait_)(any *), (*sem_post_)(any *);

static const struct { void *place; const char *name; } NAMES[] = {
	{ &loop_init, "uv_loop_init" },
	{ &loop_run, "uv_run" },
	{ &loop_close, "uv_loop_close" },
	{ &queue_work, "uv_queue_work" },
	{ &async_init, "uv_async_init" },
	{ &async_send, "uv_async_send" },
	{ &timer_init, "uv_timer_init" },
	{ &timer_start, "uv_timer_start" },
	{ &close_handle, "uv_close" },
	{ &thread_create, "uv_thread_create" },
	{ &thread_join, "uv_thread_join" },
	{ &sem_init_, "uv_sem_init" },
	{ &sem_wait_, "uv_sem_wait" },
	{ &sem_post_, "uv_sem_post" },
	{ &barrier_init, "uv_barrier_init" },
	{ &barrier_wait, "uv_barrier_wait" },
};

static any loop, works[WORKS], async, timer, meeting, permits;
static int ran, done, ticks, sent, told;
static volatile int sink;

static void run(any *work)
{
	(void)work;
	for (int i = 0; i < 20000; i++)
		sink++;
	if (add_value(&ran, 1) % 16 == 0)
		usleep(500);
}

static void after(any *work, int status)
{
	(void)work;
	CHECK_EQ(status, 0);
	done++;
}

static void ticked(any *handle)
{
	if (++ticks == 20)
		close_handle(handle, NULL);
}

static void called(any *handle)
{
	if (__atomic_load_n(&sent, __ATOMIC_SEQ_CST) != THREADS)
		return;
	/* Another one's call may have come first: nobody may use what is closed. */
	await_value(&told, THREADS);
	close_handle(handle, NULL);
}

static void sends(void *arg)
{
	(void)arg;
	for (int i = 0; i < 50; i++) {
		sem_wait_(&permits);
		sched_yield();
		sem_post_(&permits);
	}
	barrier_wait(&meeting);
	add_value(&sent, 1);
	async_send(&async);
	add_value(&told, 1);
}

static void loops(void *arg)
{
	pthread_t threads[THREADS];

	(void)arg;
	CHECK_EQ(loop_init(&loop), 0);
	CHECK_EQ(async_init(&loop, &async, called), 0);
	CHECK_EQ(timer_init(&loop, &timer), 0);
	CHECK_EQ(timer_start(&timer, ticked, 1, 1), 0);
	for (int i = 0; i < WORKS; i++)
		CHECK_EQ(queue_work(&loop, &works[i], run, after), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(thread_create(&threads[i], sends, NULL), 0);
	CHECK_EQ(loop_run(&loop, 0), 0);
	CHECK_EQ(loop_close(&loop), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(thread_join(&threads[i]), 0);
	CHECK_EQ(ran, WORKS);
	CHECK_EQ(done, WORKS);
	CHECK_EQ(ticks, 20);
}

int main(void)
{
	void *library = dlopen("libuv.so.1", RTLD_NOW);
	pthread_t thread;

	if (library == NULL)
		SKIP("libuv is not installed");
	for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
		*(void **)NAMES[i].place = dlsym(library, NAMES[i].name);
		CHECK(*(void **)NAMES[i].place != NULL);
	}
	CHECK_EQ(sem_init_(&permits, 2), 0);
	CHECK_EQ(barrier_init(&meeting, THREADS), 0);
	CHECK_EQ(thread_create(&thread, loops, NULL), 0);
	CHECK_EQ(thread_join(&thread), 0);
	return 0;
}
