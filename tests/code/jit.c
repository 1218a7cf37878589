// Makes two functions of machine code in anonymous memory, tells perf of them as a JIT does, and calls
// them. Each loads from one address a page, in order; the second one through the first's pages again.
// The name of the file that says so goes into the file of the first argument.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 8192

// next: mov rax, [rdi]; add rdi, 4096; dec rsi; jnz next; ret
static const uint8_t loop[] = {
	0x48, 0x8b, 0x07, 0x48, 0x81, 0xc7, 0x00, 0x10, 0x00, 0x00,
	0x48, 0xff, 0xce, 0x75, 0xf1, 0xc3,
};

typedef void function(char *from, uint64_t pages);

int main(int argc, char **argv)
{
	int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *code = mmap(NULL, 4096, prot | PROT_EXEC, flags, -1, 0);
	char *data = mmap(NULL, PAGES * 4096ul, prot, flags, -1, 0);
	char path[64];

	if (argc < 2 || code == MAP_FAILED || data == MAP_FAILED)
		return 1;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w"), *said = fopen(argv[1], "w");
	if (!map || !said)
		return 1;
	fputs(path, said);
	fclose(said);
	fprintf(map, "%lx %zx made::touch(char*)\n", (long)code, sizeof(loop));
	fprintf(map, "%lx %zx made::again(char*)\n", (long)code + 64, sizeof(loop));
	memcpy(code, loop, sizeof(loop));
	memcpy(code + 64, loop, sizeof(loop));
	((function *)code)(data, PAGES);
	((function *)(code + 64))(data, PAGES);
	// A JIT that is not told to flush its file writes it when it ends.
	fclose(map);
	return 0;
}
