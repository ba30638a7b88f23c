/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Addresses as texts are looked up without waiting for anyone: the thread stays where it is. What
 * they say is told as ever, and so is what is no address.
 */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { TIMES = 2000 };

static void by_getaddrinfo(void)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	CHECK_EQ(getaddrinfo("127.0.0.1", "8080", &hints, &found), 0);
	struct sockaddr_in *address = (struct sockaddr_in *)found->ai_addr;
	CHECK_EQ(address->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	CHECK_EQ(address->sin_port, htons(8080));
	freeaddrinfo(found);
}

static void by_getaddrinfo_of_six(void)
{
	struct addrinfo *found;
	CHECK_EQ(getaddrinfo("::1", NULL, NULL, &found), 0);
	struct sockaddr_in6 *address = (struct sockaddr_in6 *)found->ai_addr;
	CHECK(IN6_IS_ADDR_LOOPBACK(&address->sin6_addr));
	freeaddrinfo(found);
}

static void by_getnameinfo(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(8080) };
	char host[INET_ADDRSTRLEN], service[8];
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(getnameinfo((struct sockaddr *)&address, sizeof address, host, sizeof host,
			     service, sizeof service, NI_NUMERICHOST | NI_NUMERICSERV), 0);
	CHECK_EQ(strcmp(host, "127.0.0.1"), 0);
	CHECK_EQ(strcmp(service, "8080"), 0);
}

static void by_gethostbyname(void)
{
	struct hostent entry, *found;
	char buffer[1024];
	int error;
	CHECK_EQ(gethostbyname_r("127.0.0.1", &entry, buffer, sizeof buffer, &found, &error), 0);
	CHECK(found == &entry);
	CHECK_EQ(*(in_addr_t *)entry.h_addr_list[0], htonl(INADDR_LOOPBACK));
	CHECK_EQ(gethostbyname2_r("::1", AF_INET6, &entry, buffer, sizeof buffer, &found, &error),
		 0);
	CHECK(IN6_IS_ADDR_LOOPBACK((struct in6_addr *)entry.h_addr_list[0]));
}

static long waits(void)
{
	struct rusage used;
	CHECK_EQ(getrusage(RUSAGE_SELF, &used), 0);
	return used.ru_nvcsw;
}

static void *looks_up(void *arg)
{
	void (*const kinds[])(void) = { by_getaddrinfo, by_getaddrinfo_of_six, by_getnameinfo,
					by_gethostbyname };
	for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
		/* Files that are read once. */
		kinds[kind]();
		long before = waits();
		for (int time = 0; time < TIMES; time++)
			kinds[kind]();
		CHECK(waits() - before < TIMES / 4);
	}
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *found;
	CHECK_EQ(getaddrinfo("not.numeric", NULL, &hints, &found), EAI_NONAME);
	hints = (struct addrinfo){ .ai_flags = AI_NUMERICSERV };
	CHECK_EQ(getaddrinfo("127.0.0.1", "not-numeric", &hints, &found), EAI_NONAME);
	hints = (struct addrinfo){ .ai_family = AF_INET };
	CHECK_EQ(getaddrinfo("::1", NULL, &hints, &found), EAI_ADDRFAMILY);
	CHECK_EQ(getaddrinfo(NULL, NULL, NULL, &found), EAI_NONAME);
	return arg;
}

int main(void)
{
	join_thread(start_thread(looks_up, NULL));
	looks_up(NULL);
	return 0;
}
