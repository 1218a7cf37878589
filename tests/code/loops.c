/* Whose misses are known by line: one loop at random over 64 MiB, one in order over 64 MiB, and
 * one that stays on one page. Prints nothing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64 << 17 }; /* of 8 bytes: 64 MiB */

static inline __attribute__((always_inline)) uint64_t next(uint64_t state)
{
	return state * 6364136223846793005u + 1442695040888963407u;
}

__attribute__((noinline)) static uint64_t fill(uint64_t *words)
{
	for (size_t i = 0; i < WORDS; i += 8)
		words[i] = i; /* in order: one fault, one walk a page */
	return words[8];
}

__attribute__((noinline)) static uint64_t random_sum(const uint64_t *words, size_t count)
{
	uint64_t sum = 0, state = 1;

	for (size_t i = 0; i < count; i++) {
		state = next(state);
		sum += words[(state >> 33) % WORDS]; /* at random: nearly each walks */
	}
	return sum;
}

__attribute__((noinline)) static uint64_t stay(volatile uint64_t *word, size_t count)
{
	for (size_t i = 0; i < count; i++)
		*word += i; /* never walks */
	return *word;
}

int main(void)
{
	uint64_t *words = aligned_alloc(4096, WORDS * sizeof *words);
	uint64_t sum;

	if (!words)
		return 2;
	sum = fill(words);
	sum += random_sum(words, 500000);
	sum += stay(words, 1000000);
	return sum == 42;
}
