/* Has the kernel tell of more bytes than it writes, and of nothing; and mremap leave what there was. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT ((volatile char *)0x10000000)

static void *map(long at, int flags)
{
	return mmap((void *)(AT + at), 0x4000, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_ANONYMOUS | flags, -1, 0);
}

static int truncated(void)
{
	static char large[60000];
	int ends[2];

	socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
	send(ends[0], large, sizeof(large), 0);
	return recv(ends[1], (void *)AT, 16, MSG_TRUNC) == sizeof(large);
}

static int nothing_to_tell(void)
{
	int ends[2], *status = (int *)(AT + 0x1000);
	pid_t child, waited;

	*status = 77;
	pipe(ends);
	child = fork();
	if (!child) {
		char byte;
		_exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
	}
	waited = waitpid(child, status, WNOHANG);
	write(ends[1], "x", 1);
	waitpid(child, 0, 0);
	return waited == 0 && *status == 77;
}

static int left(void)
{
	volatile char *moved, *shared;

	map(0x10000, MAP_PRIVATE);
	AT[0x10000] = 5;
	moved = mremap((void *)(AT + 0x10000), 0x4000, 0x4000, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
	map(0x20000, MAP_SHARED);
	AT[0x20000] = 6;
	shared = mremap((void *)(AT + 0x20000), 0, 0x4000, MREMAP_MAYMOVE);
	return moved[0] == 5 && AT[0x10000] == 0 && shared[0] == 6 && AT[0x20000] == 6;
}

int main(void)
{
	map(0, MAP_PRIVATE);
	return (truncated() ? 1 : 0) | (nothing_to_tell() ? 2 : 0) | (left() ? 4 : 0);
}
