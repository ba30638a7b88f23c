/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Whoever asks the kernel by number for what is a thread's own (its processors, its policy, its
 * niceness, its priority at a disk) gets it, by 0 or by the thread's number, and changes nobody
 * else's; and a thread's number stands for its process where the kernel takes it so.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { OTHERS = 4, WHO_PROCESS = 1, CLASS_IDLE = 3 << 13, BEST_EFFORT_2 = 2 << 13 | 2 };
enum { KEEP_POLICY = 0x08, RESET_ON_FORK = 0x01, ATTRIBUTES_BYTES = 48 };

struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t util_min, util_max;
};

static pid_t number;
static int step;
static void *nowhere;

static long set_attributes(pid_t tid, struct attributes *it)
{
	return syscall(SYS_sched_setattr, tid, it, 0);
}

static struct attributes attributes_of(pid_t tid)
{
	struct attributes it;
	memset(&it, 0xff, sizeof it);
	CHECK_EQ(syscall(SYS_sched_getattr, tid, &it, sizeof it, 0), 0);
	CHECK(it.size >= ATTRIBUTES_BYTES && it.size <= sizeof it);
	return it;
}

static void has_processors(pid_t tid)
{
	cpu_set_t all, one, got;
	CPU_ZERO(&all);
	memset(&got, 0xff, sizeof got);
	long bytes = syscall(SYS_sched_getaffinity, getpid(), sizeof all, &all);
	CHECK(bytes > 0 && bytes <= (long)sizeof all);
	CHECK_EQ(syscall(SYS_sched_getaffinity, tid, sizeof got, &got), bytes);
	CHECK_EQ(memcmp(&got, &all, (size_t)bytes), 0);
	/* What is behind what the kernel knows stays. */
	if (bytes < (long)sizeof got)
		CHECK_EQ(((unsigned char *)&got)[bytes], 0xff);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < 8 * (int)bytes && CPU_COUNT(&one) == 0; cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	CHECK_EQ(syscall(SYS_sched_setaffinity, tid, sizeof one, &one), 0);
	CHECK_EQ(syscall(SYS_sched_getaffinity, tid, sizeof got, &got), bytes);
	CHECK_EQ(memcmp(&got, &one, (size_t)bytes), 0);
	CHECK_ERRNO(syscall(SYS_sched_getaffinity, tid, 3, &got), EINVAL);
	CHECK_ERRNO(syscall(SYS_sched_getaffinity, tid, sizeof got, nowhere), EFAULT);
	CHECK_ERRNO(syscall(SYS_sched_setaffinity, tid, sizeof got, nowhere), EFAULT);
	/* More than there are is no error: those that there are remain. */
	memset(&one, 0xff, sizeof one);
	CHECK_EQ(syscall(SYS_sched_setaffinity, tid, sizeof one, &one), 0);
	CHECK_EQ(sched_getaffinity(tid, sizeof got, &got), 0);
	CHECK(CPU_COUNT(&got) >= CPU_COUNT(&all) && CPU_COUNT(&got) < CPU_SETSIZE);
	CHECK_EQ(syscall(SYS_sched_setaffinity, tid, sizeof all, &all), 0);
}

static void has_policy(pid_t tid)
{
	struct sched_param param = { .sched_priority = 0 };
	struct timespec slice = { -1, -1 };
	CHECK_EQ(syscall(SYS_sched_setscheduler, tid, SCHED_BATCH, &param), 0);
	CHECK_EQ(syscall(SYS_sched_getscheduler, tid), SCHED_BATCH);
	param.sched_priority = 7;
	CHECK_EQ(syscall(SYS_sched_getparam, tid, &param), 0);
	CHECK_EQ(param.sched_priority, 0);
	CHECK_EQ(syscall(SYS_sched_setparam, tid, &param), 0);
	param.sched_priority = 7;
	CHECK_ERRNO(syscall(SYS_sched_setparam, tid, &param), EINVAL);
	CHECK_ERRNO(syscall(SYS_sched_setparam, tid, NULL), EINVAL);
	CHECK_ERRNO(syscall(SYS_sched_getparam, tid, NULL), EINVAL);
	CHECK_ERRNO(syscall(SYS_sched_setscheduler, tid, SCHED_OTHER, NULL), EINVAL);
	CHECK_ERRNO(syscall(SYS_sched_getparam, tid, nowhere), EFAULT);
	CHECK_ERRNO(sched_setparam(tid, nowhere), EFAULT);
	CHECK_EQ(syscall(SYS_sched_rr_get_interval, tid, &slice), 0);
	CHECK(slice.tv_sec >= 0 && slice.tv_nsec >= 0);
	slice.tv_nsec = -1;
	CHECK_EQ(sched_rr_get_interval(tid, &slice), 0);
	CHECK(slice.tv_nsec >= 0);
	CHECK_ERRNO(syscall(SYS_sched_rr_get_interval, tid, nowhere), EFAULT);
	param.sched_priority = 0;
	CHECK_EQ(sched_setscheduler(tid, SCHED_OTHER | SCHED_RESET_ON_FORK, &param), 0);
	CHECK_EQ(sched_getscheduler(tid), SCHED_OTHER | SCHED_RESET_ON_FORK);
	CHECK_EQ(sched_setparam(tid, &param), 0);
	CHECK_EQ(sched_getscheduler(tid), SCHED_OTHER | SCHED_RESET_ON_FORK);
}

static void has_attributes(pid_t tid)
{
	struct attributes it = { .size = ATTRIBUTES_BYTES, .policy = SCHED_BATCH, .nice = 9 }, got;
	CHECK_EQ(set_attributes(tid, &it), 0);
	got = attributes_of(tid);
	CHECK_EQ(got.policy, SCHED_BATCH);
	CHECK_EQ(got.nice, 9);
	CHECK_EQ(got.priority, 0);
	CHECK_EQ(got.flags, 0);
	CHECK_EQ(sched_getscheduler(tid), SCHED_BATCH);
	CHECK_EQ(getpriority(PRIO_PROCESS, (id_t)tid), 9);
	it.flags = RESET_ON_FORK;
	CHECK_EQ(set_attributes(tid, &it), 0);
	it.policy = 4711;
	it.nice = 40;
	it.flags = KEEP_POLICY;
	it.size = 0;
	CHECK_EQ(set_attributes(tid, &it), 0);
	got = attributes_of(tid);
	CHECK_EQ(got.policy, SCHED_BATCH);
	CHECK_EQ(got.nice, 19);
	CHECK_EQ(got.flags, RESET_ON_FORK);
	it.flags = 0;
	CHECK_ERRNO(set_attributes(tid, &it), EINVAL);
	it.policy = SCHED_OTHER;
	it.priority = 3;
	CHECK_ERRNO(set_attributes(tid, &it), EINVAL);
	it.priority = 0;
	it.flags = 1 << 30;
	CHECK_ERRNO(set_attributes(tid, &it), EINVAL);
	it.flags = 0;
	it.size = 20;
	CHECK_ERRNO(set_attributes(tid, &it), E2BIG);
	CHECK(it.size >= ATTRIBUTES_BYTES);
	CHECK_ERRNO(set_attributes(tid, NULL), EINVAL);
	CHECK_ERRNO(set_attributes(tid, nowhere), EFAULT);
	CHECK_ERRNO(syscall(SYS_sched_setattr, tid, &it, 1), EINVAL);
	CHECK_ERRNO(syscall(SYS_sched_getattr, tid, &got, sizeof got, 1), EINVAL);
	CHECK_ERRNO(syscall(SYS_sched_getattr, tid, &got, 8, 0), EINVAL);
	CHECK_ERRNO(syscall(SYS_sched_getattr, tid, nowhere, sizeof got, 0), EFAULT);
	struct {
		struct attributes known;
		uint64_t more[8];
	} large = { .known = { .size = sizeof large, .nice = 12 } };
	CHECK_EQ(syscall(SYS_sched_setattr, tid, &large, 0), 0);
	large.more[7] = 1;
	CHECK_ERRNO(syscall(SYS_sched_setattr, tid, &large, 0), E2BIG);
	CHECK_EQ(getpriority(PRIO_PROCESS, (id_t)tid), 12);
}

static void has_niceness(pid_t tid)
{
	CHECK_EQ(syscall(SYS_setpriority, PRIO_PROCESS, tid, 13), 0);
	CHECK_EQ(syscall(SYS_getpriority, PRIO_PROCESS, tid), 20 - 13);
	CHECK_EQ(getpriority(PRIO_PROCESS, (id_t)tid), 13);
	CHECK_EQ(setpriority(PRIO_PROCESS, (id_t)tid, 99), 0);
	CHECK_EQ(getpriority(PRIO_PROCESS, (id_t)tid), 19);
	CHECK_EQ(attributes_of(tid).nice, 19);
}

static void has_priority_at_a_disk(pid_t tid)
{
	if (syscall(SYS_ioprio_get, WHO_PROCESS, getpid()) == -1 && errno == ENOSYS)
		return;
	CHECK_EQ(syscall(SYS_ioprio_set, WHO_PROCESS, tid, BEST_EFFORT_2), 0);
	CHECK_EQ(syscall(SYS_ioprio_get, WHO_PROCESS, tid), BEST_EFFORT_2);
	CHECK_EQ(syscall(SYS_ioprio_set, WHO_PROCESS, tid, CLASS_IDLE), 0);
	CHECK_EQ(syscall(SYS_ioprio_get, WHO_PROCESS, tid), CLASS_IDLE);
	CHECK_ERRNO(syscall(SYS_ioprio_set, WHO_PROCESS, tid, 5 << 13), EINVAL);
	CHECK_ERRNO(syscall(SYS_ioprio_set, WHO_PROCESS, tid, 1), EINVAL);
	CHECK_EQ(syscall(SYS_ioprio_get, WHO_PROCESS, tid), CLASS_IDLE);
}

/* What the kernel takes any thread's number for. */
static void stands_for_its_process(pid_t tid)
{
	struct rlimit64 limit, same;
	int from = 4711, to = 0;
	struct iovec here = { &to, sizeof to }, there = { &from, sizeof from };
	CHECK_EQ(syscall(SYS_prlimit64, getpid(), RLIMIT_NOFILE, NULL, &limit), 0);
	CHECK_EQ(syscall(SYS_prlimit64, tid, RLIMIT_NOFILE, &limit, &same), 0);
	CHECK_EQ(same.rlim_cur, limit.rlim_cur);
	CHECK_EQ(prlimit64(tid, RLIMIT_NOFILE, NULL, &same), 0);
	CHECK_EQ(getpgid(tid), getpgid(0));
	CHECK_EQ(syscall(SYS_getpgid, tid), getpgid(0));
	CHECK_EQ(getsid(tid), getsid(0));
	CHECK_EQ(syscall(SYS_getsid, tid), getsid(0));
	CHECK_EQ(kill(tid, 0), 0);
	CHECK_EQ(syscall(SYS_kill, tid, 0), 0);
	if (syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0) < 0)
		return;
	to = 0;
	CHECK_EQ(syscall(SYS_process_vm_readv, tid, &here, 1, &there, 1, 0), sizeof to);
	CHECK_EQ(to, 4711);
	to = 0;
	CHECK_EQ(process_vm_writev(tid, &there, 1, &here, 1, 0), sizeof to);
	CHECK_EQ(to, 4711);
}

static void has_all(pid_t tid)
{
	has_processors(tid);
	has_policy(tid);
	has_attributes(tid);
	has_niceness(tid);
	has_priority_at_a_disk(tid);
}

static void *is_born(void *niceness)
{
	CHECK_EQ(sched_getscheduler(0), SCHED_BATCH);
	CHECK_EQ(getpriority(PRIO_PROCESS, 0), *(int *)niceness);
	return NULL;
}

/* A new thread has what its maker has, unless that is to be reset. */
static void hands_on(void)
{
	struct attributes it = { .size = ATTRIBUTES_BYTES, .policy = SCHED_BATCH, .nice = 11 };
	int has = 11;
	CHECK_EQ(set_attributes(0, &it), 0);
	join_thread(start_thread(is_born, &has));
	it.flags = RESET_ON_FORK;
	CHECK_EQ(set_attributes(0, &it), 0);
	join_thread(start_thread(is_born, &has));
	it.nice = -3;
	CHECK_EQ(set_attributes(0, &it), 0);
	has = 0;
	join_thread(start_thread(is_born, &has));
	it.policy = SCHED_OTHER;
	it.nice = 3;
	it.flags = 0;
	CHECK_EQ(set_attributes(0, &it), 0);
	errno = 0;
	CHECK_EQ(nice(4), 7);
	CHECK_EQ(getpriority(PRIO_PROCESS, 0), 7);
	CHECK_EQ(syscall(SYS_getpriority, PRIO_PROCESS, gettid()), 20 - 7);
}

static void *asks(void *arg)
{
	(void)arg;
	number = gettid();
	has_all(0);
	has_all(number);
	stands_for_its_process(number);
	hands_on();
	set_value(&step, 1);
	await_value(&step, 2);
	CHECK_EQ(sched_getscheduler(0), SCHED_OTHER);
	CHECK_EQ(getpriority(PRIO_PROCESS, 0), 19);
	return NULL;
}

/* They run where the other one has run. */
static void *looks(void *niceness)
{
	cpu_set_t all, got;
	long bytes = syscall(SYS_sched_getaffinity, getpid(), sizeof all, &all);
	do {
		struct attributes it = attributes_of(0);
		CHECK_EQ(it.policy, SCHED_OTHER);
		CHECK_EQ(it.nice, *(int *)niceness);
		CHECK_EQ(syscall(SYS_getpriority, PRIO_PROCESS, 0), 20 - *(int *)niceness);
		CHECK_EQ(syscall(SYS_sched_getaffinity, 0, sizeof got, &got), bytes);
		CHECK_EQ(memcmp(&got, &all, (size_t)bytes), 0);
		sched_yield();
	} while (__atomic_load_n(&step, __ATOMIC_SEQ_CST) < 2);
	return NULL;
}

int main(void)
{
	pthread_t others[OTHERS], thread;
	int niceness = getpriority(PRIO_PROCESS, 0);
	nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(nowhere != MAP_FAILED);
	if (setpriority(PRIO_PROCESS, 0, -3) != 0 || setpriority(PRIO_PROCESS, 0, niceness) != 0)
		SKIP("nicenesses are lowered, which takes a privilege");
	for (int i = 0; i < OTHERS; i++)
		others[i] = start_thread(looks, &niceness);
	thread = start_thread(asks, NULL);
	await_value(&step, 1);
	has_all(number);
	stands_for_its_process(number);
	CHECK_EQ(attributes_of(number).nice, 19);
	set_value(&step, 2);
	join_thread(thread);
	for (int i = 0; i < OTHERS; i++)
		join_thread(others[i]);
	/* The kernel knows the number for a moment longer. */
	for (long end = now_ms() + 40000; sched_getscheduler(number) != -1 && now_ms() < end;)
		sleep_ms(1);
	CHECK_ERRNO(syscall(SYS_getpriority, PRIO_PROCESS, number), ESRCH);
	CHECK_ERRNO(setpriority(PRIO_PROCESS, (id_t)number, 3), ESRCH);
	CHECK_ERRNO(syscall(SYS_ioprio_get, WHO_PROCESS, number), ESRCH);
	CHECK_ERRNO(prlimit64(number, RLIMIT_NOFILE, NULL, NULL), ESRCH);
	CHECK_ERRNO(getpgid(number), ESRCH);
	CHECK_EQ(getpriority(PRIO_PROCESS, 0), niceness);
	CHECK_EQ(sched_getscheduler(0), SCHED_OTHER);
	return 0;
}
