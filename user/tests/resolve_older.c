/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The older look-ups of names put what they find into the caller's buffer, all that the entry leads
 * to, and say when it is too small; getnameinfo() writes no more than it has to.
 */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define ADDRESS "127.0.0.1"
#define ROOM 1024

static char buffer[ROOM];

static void is_inside(const void *place)
{
	CHECK((const char *)place >= buffer && (const char *)place < buffer + ROOM);
}

static void is_whole(const struct hostent *entry)
{
	struct in_addr address;

	is_inside(entry->h_name);
	is_inside(entry->h_aliases);
	is_inside(entry->h_addr_list);
	for (char **alias = entry->h_aliases; *alias; alias++)
		is_inside(*alias);
	CHECK_EQ(entry->h_addrtype, AF_INET);
	CHECK_EQ(entry->h_length, sizeof(address));
	is_inside(entry->h_addr_list[0]);
	memcpy(&address, entry->h_addr_list[0], sizeof(address));
	CHECK_EQ(ntohl(address.s_addr), INADDR_LOOPBACK);
	CHECK(entry->h_addr_list[1] == NULL);
}

static void by_name(void)
{
	struct hostent entry, *found;
	int error = 0;

	CHECK_EQ(gethostbyname_r(ADDRESS, &entry, buffer, ROOM, &found, &error), 0);
	CHECK(found == &entry);
	CHECK(strcmp(entry.h_name, ADDRESS) == 0);
	is_whole(&entry);
	/* A buffer that is not aligned. */
	memset(&entry, 0, sizeof(entry));
	CHECK_EQ(gethostbyname2_r(ADDRESS, AF_INET, &entry, buffer + 3, ROOM - 3, &found, &error), 0);
	CHECK(found == &entry);
	is_whole(&entry);
	CHECK_EQ(gethostbyname_r(ADDRESS, &entry, buffer, 4, &found, &error), ERANGE);
	CHECK(found == NULL);
	CHECK_EQ(error, NETDB_INTERNAL);
}

static void by_address(void)
{
	struct in_addr address = { htonl(INADDR_LOOPBACK) };
	struct hostent entry, *found;
	int error = 0, code = gethostbyaddr_r(&address, sizeof(address), AF_INET, &entry, buffer,
					      ROOM, &found, &error);

	/* It may have no name here. */
	if (code == 0 && found)
		is_whole(found);
}

static void numbers(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(80) };
	char host[32], service[8];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	memset(host, 'x', sizeof(host));
	CHECK_EQ(getnameinfo((struct sockaddr *)&address, sizeof(address), host, sizeof(host),
			     service, sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV),
		 0);
	CHECK(strcmp(host, ADDRESS) == 0);
	CHECK_EQ(host[sizeof(ADDRESS)], 'x');
	CHECK(strcmp(service, "80") == 0);
	CHECK_EQ(getnameinfo((struct sockaddr *)&address, sizeof(address), NULL, 0, service,
			     sizeof(service), NI_NUMERICSERV),
		 0);
	CHECK_EQ(getnameinfo((struct sockaddr *)&address, sizeof(address), host, 4, NULL, 0,
			     NI_NUMERICHOST),
		 EAI_OVERFLOW);
}

static void *looks_up(void *arg)
{
	by_name();
	by_address();
	numbers();
	return arg;
}

int main(void)
{
	join_thread(start_thread(looks_up, NULL));
	return 0;
}
