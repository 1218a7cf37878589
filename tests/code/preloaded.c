/* Memory that it has and its code, by the kernel's word: with `memory` the resident pages of 8 MiB that
 * nobody has touched, twice after each other; with `code` the file that a function of it is mapped from. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES (8ul << 20)
#define PAGE 4096ul

/* In the middle of 6 MiB of code. */
int inside(void);
__asm__(".text\n.fill 3 << 20, 1, 0xcc\n.globl inside\ninside:\nmov $42, %eax\nret\n.fill 3 << 20, 1, 0xcc\n");

static int resident(const char *memory)
{
	static unsigned char pages[BYTES / PAGE];
	uintptr_t first = ((uintptr_t)memory + PAGE - 1) & ~(PAGE - 1);
	int count = 0;

	mincore((void *)first, BYTES - PAGE, pages);
	for (size_t i = 0; i < BYTES / PAGE - 1; i++)
		count += pages[i] & 1;
	return count;
}

__attribute__((noinline)) static char *take(void)
{
	char *memory = malloc(BYTES);

	printf("%d\n", resident(memory));
	return memory;
}

int main(int count, char **words)
{
	if (count > 1 && !strcmp(words[1], "memory")) {
		free(take());
		free(take());
		return 0;
	}

	char line[512];
	FILE *maps = fopen("/proc/self/maps", "r");

	while (fgets(line, sizeof(line), maps)) {
		uintptr_t first, last;
		char path[256] = "";

		sscanf(line, "%lx-%lx %*s %*s %*s %*s %255s", &first, &last, path);
		if ((uintptr_t)inside >= first && (uintptr_t)inside < last)
			printf("%d %s\n", inside(), *path ? path : "none");
	}
	return 0;
}
