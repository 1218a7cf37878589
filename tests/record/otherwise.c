/* Asks for what an emulator has no way to give, and for what ends a program that gets it. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	struct rlimit memory = {1L << 40, RLIM_INFINITY}, stack = {512 << 10, RLIM_INFINITY};
	long end = syscall(SYS_brk, 0);

	/* The heap stays where it is. */
	printf("brk %d\n", syscall(SYS_brk, -1L) == end && syscall(SYS_brk, -4096L) == end);
	printf("limits %d\n", setrlimit(RLIMIT_AS, &memory) | setrlimit(RLIMIT_STACK, &stack));
	signal(63, SIG_IGN);
	printf("signal %d\n", kill(getpid(), 63));
	if (mmap(NULL, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) == MAP_FAILED)
		printf("no hugetlb pages\n");
	return 0;
}
