/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * getaddrinfo resolves numeric addresses and reports what does not exist.
 */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

static void *resolves(void *arg)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	CHECK_EQ(getaddrinfo("127.0.0.1", "8080", &hints, &found), 0);
	struct sockaddr_in *address = (struct sockaddr_in *)found->ai_addr;
	CHECK_EQ(address->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	CHECK_EQ(address->sin_port, htons(8080));
	freeaddrinfo(found);
	hints.ai_flags = AI_NUMERICHOST;
	CHECK_EQ(getaddrinfo("not.numeric", NULL, &hints, &found), EAI_NONAME);
	return arg;
}

int main(void)
{
	join_thread(start_thread(resolves, NULL));
	return 0;
}
