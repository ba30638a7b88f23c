// Floor: a hand-written io_uring loop. One multishot accept, one multishot receive per connection
// into a ring of provided buffers, all sends of a pass submitted by the call that waits.
#define _GNU_SOURCE
#include <liburing.h>
#include <pthread.h>
#include <sys/mman.h>

#include "server.h"

// Debian 12's liburing 2.3 knows this flag; older headers do not.
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

enum { BUFFERS = 16384, BUFFER_BYTES = 2048, BUFFER_GROUP = 1, SQES = 4096, CQES = 32768 };
enum operation { ACCEPT = 1, RECEIVE, SEND };
enum { NO_BUFFER = 0xffff };

struct worker {
	struct io_uring ring;
	struct io_uring_buf_ring *table;
	char *buffers;
	int listener;
};

static struct response response;
static int serves_http, port;

static uint64_t tag(enum operation op, int fd, unsigned buffer)
{
	return (uint64_t)op << 56 | (uint64_t)buffer << 32 | (uint32_t)fd;
}

static struct io_uring_sqe *next_sqe(struct worker *w)
{
	struct io_uring_sqe *sqe;

	while (!(sqe = io_uring_get_sqe(&w->ring)))
		io_uring_submit(&w->ring);
	return sqe;
}

static void give_buffer(struct worker *w, unsigned buffer, int offset)
{
	io_uring_buf_ring_add(w->table, w->buffers + (size_t)buffer * BUFFER_BYTES, BUFFER_BYTES,
			      (unsigned short)buffer, io_uring_buf_ring_mask(BUFFERS), offset);
}

static void arm_accept(struct worker *w)
{
	struct io_uring_sqe *sqe = next_sqe(w);

	io_uring_prep_multishot_accept(sqe, w->listener, NULL, NULL, SOCK_CLOEXEC);
	io_uring_sqe_set_data64(sqe, tag(ACCEPT, w->listener, 0));
}

static void arm_receive(struct worker *w, int fd)
{
	struct io_uring_sqe *sqe = next_sqe(w);

	io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = BUFFER_GROUP;
	io_uring_sqe_set_data64(sqe, tag(RECEIVE, fd, 0));
}

static void send_bytes(struct worker *w, int fd, const void *bytes, size_t len, unsigned buffer)
{
	struct io_uring_sqe *sqe = next_sqe(w);

	io_uring_prep_send(sqe, fd, bytes, len, MSG_NOSIGNAL);
	io_uring_sqe_set_data64(sqe, tag(SEND, fd, buffer));
}

static void accepted(struct worker *w, const struct io_uring_cqe *cqe)
{
	int on = 1;

	if (cqe->res >= 0) {
		setsockopt(cqe->res, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		arm_receive(w, cqe->res);
	}
	if (!(cqe->flags & IORING_CQE_F_MORE))
		arm_accept(w);
}

// Returns how many buffers it gave back to the ring's table.
static int received(struct worker *w, const struct io_uring_cqe *cqe, int fd)
{
	unsigned buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
	const char *bytes = w->buffers + (size_t)buffer * BUFFER_BYTES;
	int given = 0;

	if (cqe->res == -ENOBUFS) {
		arm_receive(w, fd);
		return 0;
	}
	if (cqe->res <= 0) {
		close(fd);
		return 0;
	}
	if (!serves_http) {
		send_bytes(w, fd, bytes, (size_t)cqe->res, buffer);
	} else {
		if (wants_index(bytes, (size_t)cqe->res))
			send_bytes(w, fd, response.bytes, response.len, NO_BUFFER);
		else
			send_bytes(w, fd, NOT_FOUND, sizeof NOT_FOUND - 1, NO_BUFFER);
		give_buffer(w, buffer, 0);
		given = 1;
	}
	if (!(cqe->flags & IORING_CQE_F_MORE))
		arm_receive(w, fd);
	return given;
}

static void pass(struct worker *w)
{
	struct io_uring_cqe *cqe;
	unsigned head, seen = 0;

	io_uring_for_each_cqe(&w->ring, head, cqe) {
		uint64_t data = io_uring_cqe_get_data64(cqe);
		unsigned buffer = data >> 32 & 0xffff;
		int given = 0;

		seen++;
		switch ((enum operation)(data >> 56)) {
		case ACCEPT:
			accepted(w, cqe);
			break;
		case RECEIVE:
			given = received(w, cqe, (int)(uint32_t)data);
			break;
		case SEND:
			if (buffer != NO_BUFFER) {
				give_buffer(w, buffer, 0);
				given = 1;
			}
			break;
		}
		if (given)
			io_uring_buf_ring_advance(w->table, given);
	}
	io_uring_cq_advance(&w->ring, seen);
}

static void set_up(struct worker *w)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			 IORING_SETUP_CQSIZE,
		.cq_entries = CQES,
	};
	struct io_uring_buf_reg registration = { .ring_entries = BUFFERS, .bgid = BUFFER_GROUP };
	int error = io_uring_queue_init_params(SQES, &w->ring, &params);

	if (error)
		die("io_uring_queue_init", -error);
	w->table = mmap(NULL, BUFFERS * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE,
			MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
	w->buffers = malloc((size_t)BUFFERS * BUFFER_BYTES);
	if (w->table == MAP_FAILED || !w->buffers)
		die("buffers", ENOMEM);
	registration.ring_addr = (uint64_t)w->table;
	error = io_uring_register_buf_ring(&w->ring, &registration, 0);
	if (error)
		die("io_uring_register_buf_ring", -error);
	io_uring_buf_ring_init(w->table);
	for (unsigned i = 0; i < BUFFERS; i++)
		give_buffer(w, i, (int)i);
	io_uring_buf_ring_advance(w->table, BUFFERS);
	w->listener = listen_on(port, 0);
}

static void *serve(void *unused)
{
	struct worker *w = calloc(1, sizeof *w);

	(void)unused;
	if (!w)
		die("worker", ENOMEM);
	set_up(w);
	arm_accept(w);
	for (;;) {
		int error = io_uring_submit_and_wait(&w->ring, 1);

		if (error < 0 && error != -EINTR)
			die("io_uring_submit_and_wait", -error);
		pass(w);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long workers;

	if (argc < 4 || (strcmp(argv[1], "echo") && (strcmp(argv[1], "http") || argc < 5))) {
		fprintf(stderr, "usage: uring_server echo PORT WORKERS | http PORT WORKERS DIR\n");
		return 2;
	}
	serves_http = !strcmp(argv[1], "http");
	port = (int)number(argv[2], 1, 65535);
	workers = number(argv[3], 1, 1024);
	raise_fd_limit();
	if (serves_http)
		load_response(&response, argv[4]);
	for (long i = 1; i < workers; i++) {
		pthread_t thread;
		int error = pthread_create(&thread, NULL, serve, NULL);

		if (error)
			die("pthread_create", error);
	}
	serve(NULL);
	return 0;
}
