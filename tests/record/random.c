/* Random updates of a table that no cache holds: argument: how many millions. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ENTRIES (1L << 25)

int main(int count, char **words)
{
	long updates = 1000000 * (count > 1 ? atol(words[1]) : 1);
	uint64_t *table = calloc(ENTRIES, sizeof(*table));
	uint64_t state = 88172645463325252, sum = 0;

	if (!table)
		return 1;
	for (long at = 0; at < updates; at++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		table[state % ENTRIES] += state;
	}
	for (long at = 0; at < ENTRIES; at += 4096)
		sum += table[at];
	printf("%lu\n", sum);
	return 0;
}
