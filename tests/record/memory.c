/* Changes its address space in every way, at addresses that the test knows. */
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "raw.h"

#define AT ((char *)0x10000000)
#define FIXED (MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS)

__attribute__((force_align_arg_pointer)) void _start(void)
{
	char *heap = (char *)call1(SYS_brk, 0);
	long memory;

	call1(SYS_brk, heap + 0x3000);
	call1(SYS_brk, heap + 0x3000);
	call1(SYS_brk, heap + 0x1000);
	call6(SYS_mmap, AT, 0x3800, PROT_READ | PROT_WRITE, FIXED, -1, 0);
	AT[0] = 1;
	call3(SYS_mprotect, AT + 0x1000, 0x1000, PROT_READ);
	call3(SYS_madvise, AT, 0x1000, MADV_DONTNEED);
	call3(SYS_madvise, AT, 0x1000, MADV_HUGEPAGE);
	call2(SYS_munmap, AT + 0x2000, 0x1000);
	call2(SYS_munmap, AT + 1, 0x1000); /* fails: not at a page */
	call6(SYS_mmap, AT + 0x10000, 0x2000, PROT_READ | PROT_WRITE,
	      MAP_FIXED | MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	call6(SYS_mremap, AT + 0x10000, 0x2000, 0x1000, 0, 0, 0);
	memory = call2(SYS_memfd_create, "m", 0);
	call2(SYS_ftruncate, memory, 0x1000);
	call6(SYS_mmap, AT + 0x20000, 0x1000, PROT_READ, MAP_FIXED | MAP_SHARED, memory, 0);
	call6(SYS_mmap, AT + 0x21000, 0x1000, PROT_READ, MAP_FIXED | MAP_PRIVATE, memory, 0);
	call1(SYS_exit_group, 7);
}
