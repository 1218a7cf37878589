// Makes a function of machine code in anonymous memory, tells perf of it by a jitdump as a JIT does, and calls it;
// then the same as `again`, and that once more after moving it. Each loads from one address a page, in order.
// The dump goes into the current directory. Line 2 of made.js loads, line 3 counts, line 4 returns.
#include <fcntl.h>
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

static FILE *dump;

static void put(uint64_t value, int bytes)
{
	fwrite(&value, bytes, 1, dump);
}

static void record(uint32_t id, uint32_t payload)
{
	put(id, 4);
	put(16 + payload, 4);
	put(0, 8);
}

static void line(uint64_t address, uint32_t number, const char *file)
{
	put(address, 8);
	put(number, 4);
	put(0, 4);
	fwrite(file, strlen(file) + 1, 1, dump);
}

static void load(uint64_t code, uint64_t index, const char *name)
{
	record(2, 16 + 3 * 16 + sizeof("made.js") + 2 * sizeof("\xff"));
	put(code, 8);
	put(3, 8);
	line(code, 2, "made.js");
	line(code + 3, 3, "\xff");
	line(code + 15, 4, "\xff");
	record(0, 40 + strlen(name) + 1 + sizeof(loop));
	put(getpid(), 4);
	put(getpid(), 4);
	put(code, 8);
	put(code, 8);
	put(sizeof(loop), 8);
	put(index, 8);
	fwrite(name, strlen(name) + 1, 1, dump);
	fwrite(loop, sizeof(loop), 1, dump);
}

static void move(uint64_t from, uint64_t to, uint64_t index)
{
	record(1, 48);
	put(getpid(), 4);
	put(getpid(), 4);
	put(to, 8);
	put(from, 8);
	put(to, 8);
	put(sizeof(loop), 8);
	put(index, 8);
}

int main(void)
{
	int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *code = mmap(NULL, 4096, prot | PROT_EXEC, flags, -1, 0);
	char *data = mmap(NULL, PAGES * 4096ul, prot, flags, -1, 0);
	char path[64];

	snprintf(path, sizeof(path), "jit-%d.dump", getpid());
	dump = fopen(path, "w+");
	if (!dump || code == MAP_FAILED || data == MAP_FAILED)
		return 1;
	// What perf finds it by.
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED)
		return 1;
	put(0x4a695444, 4);
	put(1, 4);
	put(40, 4);
	put(62, 4);
	put(0, 4);
	put(getpid(), 4);
	put(0, 8);
	put(0, 8);
	for (int at = 0; at <= 128; at += 64)
		memcpy(code + at, loop, sizeof(loop));
	load((uint64_t)code, 1, "made::touch");
	((function *)code)(data, PAGES);
	load((uint64_t)code + 64, 2, "made::again");
	((function *)(code + 64))(data, PAGES);
	move((uint64_t)code + 64, (uint64_t)code + 128, 2);
	((function *)(code + 128))(data, PAGES);
	fclose(dump);
	return 0;
}
