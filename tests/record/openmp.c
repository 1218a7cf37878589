// OpenMP: a sum in integers, whose result depends on nothing but the loop.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	enum { N = 1 << 14 };
	static uint32_t table[N];
	uint64_t sum = 0;

#pragma omp parallel for num_threads(4)
	for (int i = 0; i < N; i++)
		table[i] = (uint32_t)i * 2654435761u;
	for (int round = 0; round < 20; round++) {
#pragma omp parallel for num_threads(4) schedule(dynamic, 512) reduction(+ : sum)
		for (int i = 0; i < N; i++) {
			char text[32];

			sum += table[table[i] % N] ^ (uint32_t)round;
			if (i % 64 == 0)
				sum += strlen(memset(text, 0, sizeof(text)));
		}
	}
	printf("%016lx\n", sum);
	return 0;
}
