// Response under load (TEK Fig. 9 and 10): time-critical threads react to events while the hog
// threads of four groups use every CPU. A plain program: it knows nothing of heddle.
//
//   response FOLDER HOGS CRITICAL WORK_US default|direct
//
// FOLDER has a FIFO `event.I` for each of the CRITICAL threads. An event is the time at which it
// was written (CLOCK_MONOTONIC in ns, 8 bytes); 0 ends its thread. To react is to work WORK_US of
// CPU time; the response time runs from the event's writing to the work's end, so events that
// queue up behind a slow one wait. HOGS threads of each group compute until the file `stage`, which
// both sides map, says so: stopping them needs no CPU time of their own.
//
// With `direct` the program sets its own policies: SCHED_RR for the critical threads, SCHED_IDLE
// for the hogs, which is what any mediator can reach at best.
//
// Prints mean_ms, p99_ms, max_ms (response), wake_mean_ms, n, involuntary and voluntary (context
// switches of the critical threads), hog_work (loops of all hogs), and event_I, the response time
// to the I-th event, mean of the critical threads.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "events.h"

enum { GROUPS = 4, HOGS_MAX = 128, EVENTS_MAX = 100000, RR_PRIORITY = 10 };

struct critical {
	pthread_t thread;
	int fd;
	long events, involuntary, voluntary;
	double *wake_ms, *response_ms;
};

static struct critical critical[EVENT_THREADS_MAX];
static atomic_int running;
static volatile char *stage;
static atomic_long hog_work;
static int direct;
static uint64_t work_ns;

static void set_policy(int policy, int priority)
{
	struct sched_param param = {.sched_priority = priority};

	if (direct && sched_setscheduler(0, policy, &param))
		die("sched_setscheduler", errno);
}

static void hog(void)
{
	volatile long x = 0;
	long loops = 0;

	set_policy(SCHED_IDLE, 0);
	atomic_fetch_add(&running, 1);
	while (*stage != STAGE_STOP) {
		for (int i = 0; i < 1000; i++)
			x += i;
		loops++;
	}
	atomic_fetch_add(&hog_work, loops);
}

// A function per group, as a policy tells threads by what starts them.
void *urgent_hog(void *unused)
{
	hog();
	return unused;
}

void *normal_hog(void *unused)
{
	hog();
	return unused;
}

void *service_hog(void *unused)
{
	hog();
	return unused;
}

void *background_hog(void *unused)
{
	hog();
	return unused;
}

static void work(void)
{
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	volatile long x = 0;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin < work_ns)
		for (int k = 0; k < 200; k++)
			x += k;
}

void *critical_reaction(void *of)
{
	struct critical *self = of;
	struct rusage usage;
	uint64_t sent;

	set_policy(SCHED_RR, RR_PRIORITY);
	atomic_fetch_add(&running, 1);
	while (read(self->fd, &sent, sizeof sent) == sizeof sent && sent) {
		self->wake_ms[self->events] = (double)(clock_ns(CLOCK_MONOTONIC) - sent) / 1e6;
		work();
		self->response_ms[self->events] =
			(double)(clock_ns(CLOCK_MONOTONIC) - sent) / 1e6;
		if (++self->events == EVENTS_MAX)
			break;
	}
	getrusage(RUSAGE_THREAD, &usage);
	self->involuntary = usage.ru_nivcsw;
	self->voluntary = usage.ru_nvcsw;
	return NULL;
}

static pthread_t start(void *(*function)(void *), void *arg)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, function, arg);

	if (error)
		die("pthread_create", error);
	return thread;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report_events(long count)
{
	for (long k = 0; k < critical[0].events; k++) {
		double sum = 0;

		for (long i = 0; i < count; i++)
			sum += critical[i].response_ms[k];
		printf("event_%ld %.4f\n", k, sum / (double)count);
	}
}

static void report(long count)
{
	double *response = calloc(EVENTS_MAX, sizeof *response), sum = 0, wake = 0;
	long n = 0, involuntary = 0, voluntary = 0;

	for (long i = 0; i < count; i++) {
		for (long k = 0; k < critical[i].events && n < EVENTS_MAX; k++) {
			response[n++] = critical[i].response_ms[k];
			sum += critical[i].response_ms[k];
			wake += critical[i].wake_ms[k];
		}
		involuntary += critical[i].involuntary;
		voluntary += critical[i].voluntary;
	}
	if (!n) {
		fprintf(stderr, "no event came\n");
		exit(1);
	}
	qsort(response, (size_t)n, sizeof *response, by_size);
	printf("mean_ms %.4f\np99_ms %.4f\n", sum / (double)n, response[n * 99 / 100]);
	printf("wake_mean_ms %.4f\nmax_ms %.4f\n", wake / (double)n, response[n - 1]);
	printf("n %ld\ninvoluntary %ld\nvoluntary %ld\n", n, involuntary, voluntary);
	printf("hog_work %ld\n", atomic_load(&hog_work));
}

int main(int argc, char **argv)
{
	void *(*const groups[GROUPS])(void *) = {urgent_hog, normal_hog, service_hog,
						 background_hog};
	pthread_t hogs[GROUPS * HOGS_MAX];
	long hog_count, critical_count;

	if (argc != 6) {
		fprintf(stderr, "usage: response FOLDER HOGS CRITICAL WORK_US default|direct\n");
		return 2;
	}
	hog_count = number(argv[2], 0, HOGS_MAX) * GROUPS;
	critical_count = number(argv[3], 1, EVENT_THREADS_MAX);
	work_ns = (uint64_t)number(argv[4], 0, 1000000) * 1000;
	direct = !strcmp(argv[5], "direct");
	stage = map_stage(argv[1]);
	for (long i = 0; i < critical_count; i++) {
		struct critical *one = &critical[i];

		one->fd = open_events(argv[1], i);
		one->wake_ms = calloc(EVENTS_MAX, sizeof(double));
		one->response_ms = calloc(EVENTS_MAX, sizeof(double));
		if (!one->wake_ms || !one->response_ms)
			die("calloc", ENOMEM);
		one->thread = start(critical_reaction, one);
	}
	for (long i = 0; i < hog_count; i++)
		hogs[i] = start(groups[i % GROUPS], NULL);
	while (atomic_load(&running) < hog_count + critical_count)
		usleep(10000);
	*stage = STAGE_READY;
	for (long i = 0; i < critical_count; i++)
		pthread_join(critical[i].thread, NULL);
	for (long i = 0; i < hog_count; i++)
		pthread_join(hogs[i], NULL);
	report(critical_count);
	report_events(critical_count);
	return 0;
}
