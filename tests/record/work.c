/* Ordinary work: sorting, floating point, formatting, strings. The same every time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 3000

static int compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

int main(void)
{
	int *numbers = malloc(COUNT * sizeof(*numbers));
	unsigned int state = 1, hash = 0;
	double sum = 0;
	char text[64];

	if (!numbers)
		return 1;
	for (int at = 0; at < COUNT; at++) {
		state = state * 1103515245 + 12345;
		numbers[at] = state >> 8;
	}
	qsort(numbers, COUNT, sizeof(*numbers), compare);
	for (int at = 0; at < COUNT; at++)
		sum += numbers[at] * 0.5;
	for (int at = 0; at < 300; at++) {
		snprintf(text, sizeof(text), "%d-%g", numbers[at], sum / (at + 1));
		hash = hash * 31 + strlen(text);
		for (char *letter = text; *letter; letter++)
			hash = hash * 31 + *letter;
	}
	free(numbers);
	return hash % 100;
}
