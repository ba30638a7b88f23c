// The user whose events `response` reacts to: writes the time into each FIFO of a folder.
//
//   events FOLDER THREADS EVENTS
//
// Every 30 to 50 ms each of the THREADS gets an event. A second after the last of EVENTS the hogs
// are stopped and each thread gets the event that ends it: what is still queued then is reacted to
// in peace, which keeps a slow system's backlog from lasting for minutes. Where permitted this
// process runs before all others (SCHED_FIFO), as an interrupt would; prints `fifo 1` then. A late
// event is no error: its time is that of its writing.
#define _GNU_SOURCE
#include <sched.h>
#include <unistd.h>

#include "events.h"

enum { FIFO_PRIORITY = 50, LEAST_US = 30000, SPREAD_US = 20000 };
enum { SETTLE_US = 500000, READY_LIMIT_S = 20 };

static void send_all(const int *fds, long threads, int last)
{
	for (long i = 0; i < threads; i++) {
		uint64_t now = last ? 0 : clock_ns(CLOCK_MONOTONIC);

		// A full FIFO means a reader that hangs; the program's own time limit ends that.
		if (write(fds[i], &now, sizeof now) != sizeof now)
			die("write an event", errno);
	}
}

// The threads run, and whoever orders them has half a second to do so.
static void await_readiness(const volatile char *stage)
{
	for (int i = 0; *stage != STAGE_READY; i++) {
		if (i == READY_LIMIT_S * 100) {
			fprintf(stderr, "the threads did not run within %d s\n", READY_LIMIT_S);
			exit(1);
		}
		usleep(10000);
	}
	usleep(SETTLE_US);
}

int main(int argc, char **argv)
{
	struct sched_param param = {.sched_priority = FIFO_PRIORITY};
	int fds[EVENT_THREADS_MAX];
	long threads, events;
	volatile char *stage;

	if (argc != 4) {
		fprintf(stderr, "usage: events FOLDER THREADS EVENTS\n");
		return 2;
	}
	threads = number(argv[2], 1, EVENT_THREADS_MAX);
	events = number(argv[3], 1, 100000);
	for (long i = 0; i < threads; i++)
		fds[i] = open_events(argv[1], i);
	stage = map_stage(argv[1]);
	await_readiness(stage);
	printf("fifo %d\n", !sched_setscheduler(0, SCHED_FIFO, &param));
	for (long e = 0; e < events; e++) {
		send_all(fds, threads, 0);
		usleep((useconds_t)(LEAST_US + e * 7919 % SPREAD_US));
	}
	sleep(1);
	*stage = STAGE_STOP;
	send_all(fds, threads, 1);
	return 0;
}
