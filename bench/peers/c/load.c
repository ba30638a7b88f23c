// Load generator: N connections, closed loop, one outstanding request each, one epoll loop.
//
//   load echo|http|memcached PORT CONNS WARM_MS MEASURE_MS BYTES|PATH [PID...]
//
// memcached: a value of BYTES is set under one key; then each connection gets it, and sets it again
// as every tenth request.
//
// Prints one line of JSON: requests, seconds, errors, latency percentiles in us, and the CPU time
// that the processes PID... (the server) and this process used while measuring. The CPU time is the
// process clock of the kernel: exact, exited kernel threads included, one call per process.
//
// Connections are opened in batches and each makes one round trip before the next batch: a listen
// queue that overflows drops the SYN, and its repeat a second later would look like the server's
// slowness.
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

enum {
	EVENTS = 512,
	BATCH = 128,
	BUFFER_BYTES = 65536,
	REQUEST_BYTES_MAX = 4096,
	SET_EVERY = 10,
	SERVERS_MAX = 64,
	// Latencies: 32 buckets per power of two from 1 ns up, so a percentile is right to 3 %.
	SUB_BITS = 5,
	BUCKETS = 64 << SUB_BITS,
};

struct connection {
	int fd;
	uint64_t sent_ns;
	size_t got, need; // need == 0: the response's length is not known yet
	unsigned asked;
	char begins;
};

// What a connection asks; `begins` is how each answer does. An answer_len of 0 is found out.
struct question {
	char text[REQUEST_BYTES_MAX + 64];
	size_t len, answer_len;
	char begins;
};

static struct connection *connections;
static struct question usual, set;
static char buffer[BUFFER_BYTES + 1];
static size_t usual_len;
static int epoll_fd;
static uint64_t requests, errors, longest_ns, histogram[BUCKETS];
static clockid_t servers[SERVERS_MAX];
static int server_count;

static unsigned bucket_of(uint64_t ns)
{
	unsigned shift;

	if (ns < 1u << (SUB_BITS + 1))
		return (unsigned)ns;
	shift = 63u - (unsigned)__builtin_clzll(ns) - SUB_BITS;
	return (shift << SUB_BITS) + (unsigned)(ns >> shift);
}

static double bucket_top_us(unsigned bucket)
{
	unsigned shift;

	if (bucket < 1u << (SUB_BITS + 1))
		return bucket / 1e3;
	shift = (bucket >> SUB_BITS) - 1;
	return (double)(((uint64_t)(bucket - (shift << SUB_BITS)) + 1) << shift) / 1e3;
}

static double percentile_us(double share)
{
	uint64_t seen = 0, want = (uint64_t)(share * (double)requests);

	for (unsigned i = 0; i < BUCKETS; i++) {
		seen += histogram[i];
		if (seen > want)
			return bucket_top_us(i);
	}
	return (double)longest_ns / 1e3;
}

static void ask(struct connection *c)
{
	const struct question *question = set.len && ++c->asked % SET_EVERY == 0 ? &set : &usual;

	c->got = 0;
	c->need = question->answer_len;
	c->begins = question->begins;
	c->sent_ns = clock_ns(CLOCK_MONOTONIC);
	if (send(c->fd, question->text, question->len, MSG_NOSIGNAL) != (ssize_t)question->len)
		errors++;
}

// Learns a response's length from its header, which must be whole in the first segment.
static size_t response_len(size_t got)
{
	char *end, *field;

	buffer[got] = 0;
	end = strstr(buffer, "\r\n\r\n");
	field = strcasestr(buffer, "\r\ncontent-length:");
	if (!end || !field || field > end || strncmp(buffer + 9, "200", 3)) {
		errors++;
		return got;
	}
	return (size_t)(end + 4 - buffer) + strtoul(field + 17, NULL, 10);
}

// True when a whole response has come.
static int receive(struct connection *c)
{
	ssize_t got = recv(c->fd, buffer, BUFFER_BYTES, 0);

	if (got <= 0) {
		if (got < 0 && errno == EAGAIN)
			return 0;
		fprintf(stderr, "the server closed a connection\n");
		exit(1);
	}
	if (c->need == 0) {
		// The same file again: same length, same status, no need to parse.
		if ((size_t)got == usual_len && !memcmp(buffer + 8, " 200", 4))
			c->need = usual_len;
		else
			c->need = usual_len = response_len((size_t)got);
	}
	if (c->got == 0 && buffer[0] != c->begins)
		errors++;
	c->got += (size_t)got;
	return c->got >= c->need;
}

static void record(const struct connection *c)
{
	uint64_t took_ns = clock_ns(CLOCK_MONOTONIC) - c->sent_ns;

	requests++;
	histogram[bucket_of(took_ns)]++;
	if (took_ns > longest_ns)
		longest_ns = took_ns;
}

static void open_one(struct connection *c, int port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
	// Closing by reset leaves no TIME_WAIT, so rounds do not run out of ports.
	struct linger reset = { .l_onoff = 1 };
	int on = 1;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("socket", errno);
	if (connect(c->fd, (struct sockaddr *)&address, sizeof address))
		die("connect", errno);
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	if (fcntl(c->fd, F_SETFL, O_NONBLOCK) ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event))
		die("epoll_ctl", errno);
}

static void open_all(long count, int port)
{
	struct epoll_event events[EVENTS];

	for (long first = 0; first < count; first += BATCH) {
		long last = first + BATCH < count ? first + BATCH : count, waiting = last - first;

		for (long i = first; i < last; i++) {
			open_one(&connections[i], port);
			ask(&connections[i]);
		}
		while (waiting > 0) {
			int n = epoll_wait(epoll_fd, events, EVENTS, 20000);

			if (n <= 0) {
				fprintf(stderr, "no answer within 20 s, %ld connections open\n",
					last);
				exit(1);
			}
			for (int i = 0; i < n; i++)
				waiting -= receive(events[i].data.ptr);
		}
	}
}

static void run_until(uint64_t end_ns)
{
	struct epoll_event events[EVENTS];

	while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
		int n = epoll_wait(epoll_fd, events, EVENTS, 100);

		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (receive(c)) {
				record(c);
				ask(c);
			}
		}
	}
}

static void echo_question(long bytes)
{
	usual.len = usual.answer_len = (size_t)bytes;
	usual.begins = 'a';
	memset(usual.text, usual.begins, usual.len);
}

static void http_question(const char *path)
{
	usual.len = (size_t)snprintf(usual.text, REQUEST_BYTES_MAX,
				     "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
	usual.begins = 'H';
}

// Sets the value once, so that the first who gets it finds it.
static void memcached_questions(long bytes, int port)
{
	struct connection once = { 0 };
	size_t head = (size_t)snprintf(set.text, sizeof set.text, "set heddle 0 0 %ld\r\n", bytes);

	memset(set.text + head, 'v', (size_t)bytes);
	memcpy(set.text + head + bytes, "\r\n", 2);
	set.len = head + (size_t)bytes + 2;
	set.answer_len = strlen("STORED\r\n");
	set.begins = 'S';
	usual.len = (size_t)snprintf(usual.text, sizeof usual.text, "get heddle\r\n");
	usual.answer_len = (size_t)snprintf(NULL, 0, "VALUE heddle 0 %ld\r\n", bytes) +
			   (size_t)bytes + strlen("\r\nEND\r\n");
	usual.begins = 'V';
	open_one(&once, port);
	once.asked = SET_EVERY - 1;
	ask(&once);
	for (int waits = 0; !receive(&once); waits++) {
		if (waits == 1000) {
			fprintf(stderr, "memcached stored nothing within a second\n");
			exit(1);
		}
		usleep(1000);
	}
	close(once.fd);
}

static double servers_cpu_us(void)
{
	double total = 0;

	for (int i = 0; i < server_count; i++)
		total += (double)clock_ns(servers[i]) / 1e3;
	return total;
}

static void measure(long warm_ms, long measure_ms)
{
	uint64_t begin_ns, end_ns;
	double server_us, client_us, seconds;

	run_until(clock_ns(CLOCK_MONOTONIC) + (uint64_t)warm_ms * 1000000);
	requests = errors = longest_ns = 0;
	memset(histogram, 0, sizeof histogram);
	server_us = servers_cpu_us();
	client_us = (double)cpu_ns() / 1e3;
	begin_ns = clock_ns(CLOCK_MONOTONIC);
	run_until(begin_ns + (uint64_t)measure_ms * 1000000);
	end_ns = clock_ns(CLOCK_MONOTONIC);
	server_us = servers_cpu_us() - server_us;
	client_us = (double)cpu_ns() / 1e3 - client_us;
	seconds = (double)(end_ns - begin_ns) / 1e9;
	printf("{\"requests\":%llu,\"seconds\":%.6f,\"errors\":%llu,\"server_cpu_us\":%.1f,"
	       "\"client_cpu_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,"
	       "\"max_us\":%.1f}\n",
	       (unsigned long long)requests, seconds, (unsigned long long)errors, server_us,
	       client_us, percentile_us(0.5), percentile_us(0.99), percentile_us(0.999),
	       (double)longest_ns / 1e3);
}

int main(int argc, char **argv)
{
	long count, warm_ms, measure_ms;
	int port;

	if (argc < 7) {
		fprintf(stderr,
			"usage: load echo|http|memcached PORT CONNS WARM_MS MEASURE_MS "
			"BYTES|PATH [PID...]\n");
		return 2;
	}
	port = (int)number(argv[2], 1, 65535);
	count = number(argv[3], 1, 1000000);
	warm_ms = number(argv[4], 0, 600000);
	measure_ms = number(argv[5], 1, 600000);
	for (int i = 7; i < argc && server_count < SERVERS_MAX; i++) {
		pid_t pid = (pid_t)number(argv[i], 1, 1 << 30);
		int error = clock_getcpuclockid(pid, &servers[server_count++]);

		if (error)
			die("clock_getcpuclockid", error);
	}
	raise_fd_limit();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!strcmp(argv[1], "http"))
		http_question(argv[6]);
	else if (!strcmp(argv[1], "memcached"))
		memcached_questions(number(argv[6], 1, REQUEST_BYTES_MAX), port);
	else
		echo_question(number(argv[6], 1, REQUEST_BYTES_MAX));
	connections = calloc((size_t)count, sizeof *connections);
	if (epoll_fd < 0 || !connections)
		die("setup", errno);
	open_all(count, port);
	for (long i = 0; i < count; i++)
		ask(&connections[i]);
	measure(warm_ms, measure_ms);
	return requests == 0;
}
