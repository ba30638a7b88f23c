/* Versions of symbols: tests ask for none but the default ones. */
#define TEST_COMPAT(...) 0
#define SHLIB_COMPAT(...) 0
#define compat_symbol_reference(...)
