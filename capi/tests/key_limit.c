/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * At least 128 keys exist; beyond PTHREAD_KEYS_MAX, EAGAIN; a deleted one makes room.
 */
#define _GNU_SOURCE
#include "check.h"

#include <limits.h>

int main(void)
{
	static pthread_key_t keys[PTHREAD_KEYS_MAX + 1];
	int count = 0, error;
	while ((error = pthread_key_create(&keys[count], NULL)) == 0) {
		count++;
		CHECK(count <= PTHREAD_KEYS_MAX);
	}
	CHECK_EQ(error, EAGAIN);
	CHECK(count >= 128);
	CHECK_EQ(pthread_setspecific(keys[count - 1], &count), 0);
	CHECK(pthread_getspecific(keys[count - 1]) == &count);
	CHECK_EQ(pthread_key_delete(keys[0]), 0);
	CHECK_EQ(pthread_key_create(&keys[0], NULL), 0);
	return 0;
}
