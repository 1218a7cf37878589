/* Prefetches what is there, what is not and what cannot be, from two threads, and writes to a file what it has asked
 * for. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <unistd.h>

enum { ROUNDS = 150, EACH = 15 };

static char table[1 << 16] __attribute__((aligned(4096)));
static uint64_t asked[2][ROUNDS * EACH];

static void *prefetch(void *into)
{
	uint64_t *next = into, fs, sp;
	char *gone = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(gone, 4096);
	syscall(SYS_arch_prctl, ARCH_GET_FS, &fs);
	for (long round = 0; round < ROUNDS; round++) {
		char *volatile pointer = table + 64 * round;
		uint64_t high = 0x123400000000 | (uint32_t)(round * 4096);

		__asm__ volatile("prefetcht0 (%0)" : : "r"(pointer));
		*next++ = (uint64_t)pointer;
		__asm__ volatile("prefetchw 40(%0,%1,8)" : : "r"(table), "r"(round));
		*next++ = (uint64_t)table + 40 + round * 8;
		__asm__ volatile("prefetchnta -16(%0,%1,2)" : : "r"(table), "r"(round));
		*next++ = (uint64_t)table - 16 + round * 2;
		__asm__ volatile("prefetcht2 %%fs:8(%0)" : : "r"(round * 64));
		*next++ = fs + 8 + round * 64;
		__asm__ volatile("prefetcht1 %%fs:0x30" : :);
		*next++ = fs + 0x30;
		__asm__ volatile("prefetcht1 table+5(%%rip)" : :);
		*next++ = (uint64_t)table + 5;
		__asm__ volatile("mov %%rsp, %0; prefetcht0 16(%%rsp)" : "=r"(sp));
		*next++ = sp + 16;
		__asm__ volatile("mov %0, %%r13; prefetcht0 8(%%r13,%%r13)" : : "r"(round) : "r13");
		*next++ = 8 + 2 * round;
		__asm__ volatile("prefetcht0 (%k0)" : : "r"(high));
		*next++ = (uint32_t)high;
		__asm__ volatile("mov %0, %%rcx; .byte 0x0f, 0x0d, 0x11" : : "r"(table + round) : "rcx");
		*next++ = (uint64_t)table + round;
		__asm__ volatile("prefetcht0 (%0)" : : "r"(gone + round));
		*next++ = (uint64_t)gone + round;
		__asm__ volatile("prefetcht0 (%0)" : : "r"(0x1234567812345000 + round));
		*next++ = 0x1234567812345000 + round;
		__asm__ volatile("prefetcht0 (%0)" : : "r"(0xffffffff81000000 + round));
		*next++ = 0xffffffff81000000 + round;
		__asm__ volatile("prefetcht0 (%0)" : : "r"(0x800000000000 + round));
		*next++ = 0x800000000000 + round;
		__asm__ volatile("prefetcht0 -1(%0)" : : "r"(0x7ffffffff000 - 4096 * (round % 2)));
		*next++ = 0x7fffffffefff - 4096 * (round % 2);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t thread;
	int file = open(arguments[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (count != 2 || file < 0)
		return 1;
	prefetch(asked[0]);
	if (pthread_create(&thread, NULL, prefetch, asked[1]) || pthread_join(thread, NULL))
		return 2;
	return write(file, asked, sizeof asked) != sizeof asked;
}
