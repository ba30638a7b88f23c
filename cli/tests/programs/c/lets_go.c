/* Gives up what it got, standard error apart, and lives on until a file is there. */
#include "program.h"

int main(int count, char **words)
{
	MUST(count == 2);
	threads(2);
	say("ready");
	for (int fd = 0; fd < 64; fd++)
		if (fd != STDERR_FILENO)
			close(fd);
	for (int look = 0; look < 6000 && access(words[1], F_OK) != 0; look++)
		sleep_ms(10);
	return 21;
}
