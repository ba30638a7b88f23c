/* The parts of glibc: all that is compiled here is for its tests. */
#define MODULE_testsuite 1
