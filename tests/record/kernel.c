/* Has the kernel read and write its memory. */
#include <sys/syscall.h>
#include <sys/uio.h>

#include "raw.h"

__attribute__((aligned(4096))) char buffer[4096];
struct iovec vectors[2] = { { buffer + 100, 10 }, { buffer + 300, 100 } };
int ends[2];

__attribute__((force_align_arg_pointer)) void _start(void)
{
	call1(SYS_pipe, ends);
	call3(SYS_write, ends[1], buffer + 60, 70);   /* lines 0, 1 and 2 */
	call3(SYS_read, ends[0], buffer + 1024, 1024); /* returns 70 */
	call3(SYS_read, 77, buffer, 100);              /* fails: no such file */
	call3(SYS_write, ends[1], buffer, 30);
	call3(SYS_readv, ends[0], vectors, 2); /* returns 30: 10 and 20 */
	call1(SYS_exit_group, 0);
}
