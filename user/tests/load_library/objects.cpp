// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A library with thread-local objects that have destructors.
namespace {

int alive;

struct Counted {
	int number = 7;
	char many[64] = {};
	Counted() { __atomic_add_fetch(&alive, 1, __ATOMIC_SEQ_CST); }
	~Counted() { __atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST); }
};

thread_local Counted own;

} // namespace

extern "C" int *number_of_thread() { return &own.number; }
extern "C" char *many_of_thread() { return own.many; }
extern "C" int alive_objects() { return __atomic_load_n(&alive, __ATOMIC_SEQ_CST); }
