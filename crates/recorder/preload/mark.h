/* Marks that tell the recorder of allocations: a system call that Linux does not have, which fails
 * and leaves errno alone. The recorder's plugin sees its arguments (crates/recorder/wire/src/allocation.rs).
 */
#ifndef PAGELAB_MARK_H
#define PAGELAB_MARK_H

#define MARK 0x70616765L

enum mark { MARK_BEGIN, MARK_END, MARK_FREE };

/* The trace format's numbers of allocators. */
enum allocator { MALLOC, CALLOC, REALLOC, ALIGNED_ALLOC, NEW, MMAP };

static inline void mark(enum mark what, unsigned long first, unsigned long second)
{
	long result = MARK;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"((long)what), "S"(first), "d"(second)
			 : "rcx", "r11", "memory");
}

#endif
