/* Loads libraries in turns, each where the one before it was, and starts a thread that lies in
 * none, as a compiler at run time makes them. usage: reload LIBRARY... */
#include "program.h"

#include <dlfcn.h>
#include <sys/mman.h>

int main(int count, char **words)
{
	for (int round = 0; round < 3; round++) {
		for (int at = 1; at < count; at++) {
			void *library = dlopen(words[at], RTLD_NOW);
			int (*go)(void) = library ? (int (*)(void))dlsym(library, "plugin_go") : NULL;

			MUST(go != NULL && go() == 0 && dlclose(library) == 0);
		}
	}
#ifdef __x86_64__
	/* mov %rdi, %rax; ret */
	static const unsigned char code[] = { 0x48, 0x89, 0xf8, 0xc3 };
	int all = PROT_READ | PROT_WRITE | PROT_EXEC;
	void *page = mmap(NULL, 4096, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *(*made)(void *);

	MUST(page != MAP_FAILED);
	memcpy(page, code, sizeof(code));
	memcpy(&made, &page, sizeof(made));
	say_number("made", (long)(uintptr_t)join(start(made, (void *)(uintptr_t)9)));
#endif
	return 0;
}
