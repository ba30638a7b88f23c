/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * SCHED_HEDDLE in a pthread_attr_t.
 *
 * libc's setters refuse a policy that they do not know, but its getters give back what stands in
 * the attribute. So the policy and the priority are written where libc keeps them: the places
 * are found by setting known values and looking which word follows. Before such an attribute
 * reaches libc again, in pthread_create, it is copied and the copy made an ordinary one.
 *
 * Invariant: if a place cannot be told for sure, SCHED_HEDDLE is refused as libc would.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#define SCHED_HEDDLE 0x48
#define WORDS (sizeof(pthread_attr_t) / sizeof(int))

/* Word + 1; 0 not looked for yet, NOT_FOUND. */
static uint32_t policy_word;
static uint32_t priority_word;
#define NOT_FOUND UINT32_MAX

static int *word_at(pthread_attr_t *attributes, uint32_t word)
{
	return (int *)(void *)attributes + (word - 1);
}

/* The only word that holds `two` here and `one` there. */
static uint32_t word_that_follows(const pthread_attr_t *first, int one,
				  const pthread_attr_t *second, int two)
{
	uint32_t found = NOT_FOUND;

	for (uint32_t word = 0; word < WORDS; word++) {
		int here, there;

		memcpy(&here, (const char *)first + word * sizeof(int), sizeof(here));
		memcpy(&there, (const char *)second + word * sizeof(int), sizeof(there));
		if (here != one || there != two)
			continue;
		if (found != NOT_FOUND)
			return NOT_FOUND;
		found = word + 1;
	}
	return found;
}

static COLD void find_words(void)
{
	const struct sched_param low = {.sched_priority = 11}, high = {.sched_priority = 13};
	pthread_attr_t first, second;
	uint32_t policy = NOT_FOUND, priority = NOT_FOUND;

	memset(&first, 0, sizeof(first));
	memset(&second, 0, sizeof(second));
	pthread_attr_init(&first);
	pthread_attr_init(&second);
	if (REAL(pthread_attr_setschedpolicy)(&first, SCHED_FIFO) == 0 &&
	    REAL(pthread_attr_setschedpolicy)(&second, SCHED_RR) == 0 &&
	    REAL(pthread_attr_setschedparam)(&first, &low) == 0 &&
	    REAL(pthread_attr_setschedparam)(&second, &high) == 0) {
		policy = word_that_follows(&first, SCHED_FIFO, &second, SCHED_RR);
		priority = word_that_follows(&first, 11, &second, 13);
	}
	pthread_attr_destroy(&first);
	pthread_attr_destroy(&second);
	store(&priority_word, policy == NOT_FOUND ? NOT_FOUND : priority);
	store_release(&policy_word, priority == NOT_FOUND ? NOT_FOUND : policy);
}

static bool words_known(void)
{
	if (!load_acquire(&policy_word))
		find_words();
	return load(&policy_word) != NOT_FOUND;
}

bool attr_is_heddle(const pthread_attr_t *attributes)
{
	int policy;

	return attributes && pthread_attr_getschedpolicy(attributes, &policy) == 0 &&
	       policy == SCHED_HEDDLE;
}

/* Makes the attribute one that libc knows, and returns the priority that it had, or -1 where the
 * new thread is to inherit its scheduling. */
int attr_make_ordinary(pthread_attr_t *attributes)
{
	int inherit = PTHREAD_INHERIT_SCHED, priority = *word_at(attributes, priority_word);
	const struct sched_param none = {0};

	pthread_attr_getinheritsched(attributes, &inherit);
	*word_at(attributes, policy_word) = SCHED_OTHER;
	/* libc notes that it was set; else it would take the creator's. */
	(void)REAL(pthread_attr_setschedparam)(attributes, &none);
	return inherit == PTHREAD_EXPLICIT_SCHED ? priority : -1;
}

EXPORT int pthread_attr_setschedpolicy(pthread_attr_t *attributes, int policy)
{
	if (policy != SCHED_HEDDLE || !process_ready() || !words_known()) {
		/* A priority of ours may be none of the other policy's: libc would not say so. */
		if (attr_is_heddle(attributes) && words_known())
			*word_at(attributes, priority_word) = 0;
		return REAL(pthread_attr_setschedpolicy)(attributes, policy);
	}
	/* libc notes that a policy was set. */
	if (REAL(pthread_attr_setschedpolicy)(attributes, SCHED_OTHER) != 0)
		return EINVAL;
	*word_at(attributes, policy_word) = SCHED_HEDDLE;
	return 0;
}

EXPORT int pthread_attr_setschedparam(pthread_attr_t *attributes, const struct sched_param *param)
{
	if (!attr_is_heddle(attributes) || !words_known())
		return REAL(pthread_attr_setschedparam)(attributes, param);
	if (param->sched_priority < 0 || param->sched_priority > 99)
		return EINVAL;
	*word_at(attributes, priority_word) = param->sched_priority;
	return 0;
}
