/* Makes standard error non-blocking, as some do for all who have it, and leaves it full. */
#include "program.h"

#include <fcntl.h>

int main(void)
{
	static const char line[] = "the program's own words\n";

	threads(2);
	MUST(fcntl(STDERR_FILENO, F_SETFL, fcntl(STDERR_FILENO, F_GETFL) | O_NONBLOCK) == 0);
	while (write(STDERR_FILENO, line, sizeof(line) - 1) == (ssize_t)sizeof(line) - 1)
		;
	MUST(errno == EAGAIN);
	return 22;
}
