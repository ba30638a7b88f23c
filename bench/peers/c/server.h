// What the two hand-written servers share: the listening socket and the canned HTTP response.
//
// The HTTP side is a floor, not a web server: it looks at the request line of each request, knows
// one file, read once at start, and answers anything else with 404.
#ifndef HEDDLE_BENCH_SERVER_H
#define HEDDLE_BENCH_SERVER_H

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

enum { BACKLOG = 16384, RESPONSE_BYTES_MAX = 65536 };

struct response {
	char bytes[RESPONSE_BYTES_MAX];
	size_t len;
};

static const char NOT_FOUND[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

// Each worker has its own listening socket; the kernel spreads connections over them.
static inline int listen_on(int port, int flags)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), on = 1;
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	if (fd < 0)
		die("socket", errno);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on))
		die("setsockopt", errno);
	if (bind(fd, (struct sockaddr *)&address, sizeof address))
		die("bind", errno);
	if (listen(fd, BACKLOG))
		die("listen", errno);
	return fd;
}

static inline void load_response(struct response *r, const char *folder)
{
	char path[4096];
	struct stat status;
	int fd, header;

	snprintf(path, sizeof path, "%s/index.html", folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status))
		die(path, errno);
	header = snprintf(r->bytes, sizeof r->bytes,
			  "HTTP/1.1 200 OK\r\nServer: floor\r\nContent-Type: text/html\r\n"
			  "Content-Length: %lld\r\n\r\n",
			  (long long)status.st_size);
	r->len = (size_t)header + (size_t)status.st_size;
	if (r->len > sizeof r->bytes)
		die(path, EFBIG);
	if (read(fd, r->bytes + header, (size_t)status.st_size) != status.st_size)
		die(path, EIO);
	close(fd);
}

static inline int wants_index(const char *request, size_t len)
{
	static const char want[] = "GET /index.html HTTP/1.1\r\n";

	return len >= sizeof want - 1 && !memcmp(request, want, sizeof want - 1);
}

#endif
