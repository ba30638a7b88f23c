/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A program of C, without an unwinder, that loads a library of C++ twice. */
#include "own_table.h"
#include <dlfcn.h>
#include <stdbool.h>

int main(int count, char **arguments)
{
	const int scope = count > 2 && strcmp(arguments[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;

	for (int round = 0; round < 2; round++) {
		void *library = dlopen(arguments[1], RTLD_NOW | scope);
		int (*run)(bool);

		CHECK(library);
		run = (int (*)(bool))dlsym(library, "run");
		CHECK(run);
		CHECK_EQUAL(run(round == 0), 0);
		CHECK_EQUAL(dlclose(library), 0);
	}
	return 0;
}
