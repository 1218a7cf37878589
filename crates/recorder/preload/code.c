/* Code of files in huge pages: a copy in anonymous memory takes the place of the mapping.
 *
 * Page caches of most file systems have no huge pages for code that is executed. mremap(2) replaces the
 * mapping in one step, so that nobody finds it missing; the call is made here, since the C library's own
 * code may be what is moved. Debuggers and profilers no longer find the file there.
 */
#define _GNU_SOURCE
#include "code.h"

#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define HUGE (2ul << 20)

/* mremap(2) of `length` bytes to a place that is in use. */
static long put_there(void *memory, size_t length, void *place)
{
	long result;

#ifdef __x86_64__
	register long flags __asm__("r10") = MREMAP_MAYMOVE | MREMAP_FIXED;
	register void *to __asm__("r8") = place;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"((long)SYS_mremap), "D"(memory), "S"(length), "d"(length), "r"(flags), "r"(to)
			 : "rcx", "r11", "memory");
#else
	register long number __asm__("x8") = SYS_mremap;
	register void *from __asm__("x0") = memory;
	register size_t before __asm__("x1") = length;
	register size_t after __asm__("x2") = length;
	register long flags __asm__("x3") = MREMAP_MAYMOVE | MREMAP_FIXED;
	register void *to __asm__("x4") = place;

	__asm__ volatile("svc 0"
			 : "+r"(from)
			 : "r"(number), "r"(before), "r"(after), "r"(flags), "r"(to)
			 : "memory");
	result = (long)from;
#endif
	return result;
}

static void move(char *code, size_t length)
{
	char *found = mmap(NULL, length + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (found == MAP_FAILED)
		return;

	char *aligned = (char *)(((uintptr_t)found + HUGE - 1) & ~(HUGE - 1));
	char *copy = aligned;

	madvise(copy, length, MADV_HUGEPAGE);
	memcpy(copy, code, length);
	/* Also where the kernel gives none by itself (Linux 6.1). */
	madvise(copy, length, MADV_COLLAPSE);
	if (!mprotect(copy, length, PROT_READ | PROT_EXEC) &&
	    put_there(copy, length, code) == (long)code)
		copy += length;
	/* What is around the copy; and the copy, if it was not moved. */
	if (aligned > found)
		munmap(found, (size_t)(aligned - found));
	munmap(copy, (size_t)(found + length + HUGE - copy));
}

static int of_object(struct dl_phdr_info *object, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || (segment->p_flags & (PF_X | PF_W)) != PF_X)
			continue;

		uintptr_t start = object->dlpi_addr + segment->p_vaddr;
		uintptr_t end = (start + segment->p_memsz) & ~(HUGE - 1);

		start = (start + HUGE - 1) & ~(HUGE - 1);
		if (start < end)
			move((char *)start, end - start);
	}
	return 0;
}

void code_set_up(void)
{
	dl_iterate_phdr(of_object, NULL);
}
