/* Closes every descriptor that it did not open, looks which number the next one gets, and has
 * threads before and after. */
#include "program.h"

#include <fcntl.h>

int main(void)
{
	int first = open("/dev/null", O_RDONLY);

	say_number("first descriptor", first);
	say_number("sum", threads(3));
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	for (int fd = 3; fd < 10; fd++)
		MUST(open("/dev/null", O_RDWR) == fd);
	say_number("sum", threads(20));
	for (int fd = 3; fd < 10; fd++)
		MUST(fcntl(fd, F_GETFD) == 0 && close(fd) == 0);
	close(0);
	say_number("sum", threads(3));
	close(2);
	close(1);
	return threads(3) == 6 ? 8 : 1;
}
