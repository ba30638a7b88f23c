/* Becomes a daemon, starts threads there and writes what they did to the file it is given. */
#include "program.h"

int main(int count, char **words)
{
	MUST(count == 2);
	say_number("sum", threads(2));
	MUST(daemon(0, 0) == 0);
	unsigned long sum = threads(6);
	sleep_ms(300);
	FILE *file = fopen(words[1], "w");
	if (file) {
		fprintf(file, "%lu\n", sum + threads(6));
		fclose(file);
	}
	return 0;
}
