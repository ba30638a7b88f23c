/* Loads, uses and unloads a library that starts threads, several times and from a thread. */
#include "program.h"

#include <dlfcn.h>

static void *use(void *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	MUST(library != NULL);
	unsigned long (*sum)(int) = (unsigned long (*)(int))dlsym(library, "plugin_sum");
	MUST(sum != NULL);
	say_number("sum", (long)sum(5));
	MUST(dlclose(library) == 0);
	return NULL;
}

int main(int count, char **words)
{
	MUST(count == 2);
	for (int round = 0; round < 3; round++)
		use(words[1]);
	join(start(use, words[1]));
	return 0;
}
