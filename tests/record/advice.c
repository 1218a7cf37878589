/* Asks madvise for everything there is, of each kind of memory, and PR_SET_THP_DISABLE: prints how they answer. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define SIZE (16 * PAGE)

static int advise(void *start, size_t length, int advice)
{
	return syscall(SYS_madvise, start, length, advice) ? errno : 0;
}

static char *map(int protection, int flags, int file) { return mmap(0, SIZE, protection, flags, file, 0); }

static void ask(int advice, int file, int memory)
{
	const int both = PROT_READ | PROT_WRITE, none = MAP_PRIVATE | MAP_ANONYMOUS;
	int segment = shmget(IPC_PRIVATE, SIZE, 0600);
	char *kinds[] = {
		map(both, none, -1), map(both, MAP_SHARED | MAP_ANONYMOUS, -1), map(PROT_READ, none, -1), map(PROT_NONE, none, -1),
		map(both, MAP_PRIVATE, file), map(both, MAP_SHARED, file), map(PROT_READ, MAP_SHARED, file),
		map(both, MAP_SHARED, memory), shmat(segment, 0, 0),
	};
	const int count = sizeof kinds / sizeof *kinds;
	volatile char *holed = map(both, none, -1);
	char *at = (char *)holed;

	memset(at, 7, SIZE);
	munmap(at + PAGE, PAGE);
	printf("%d:", advice);
	for (int i = 0; i < count; i++)
		printf(" %d", advise(kinds[i], SIZE, advice));
	printf(", a hole %d", advise(at, SIZE, advice));
	if (advice != 102) /* Nobody may look at guarded pages. */
		printf(" %d %d", holed[0], holed[2 * PAGE]);
	printf(", unmapped %d, unaligned %d %d, empty %d, wrapped %d %d, none %d, the kernel's %d\n", advise(at + PAGE, PAGE, advice),
	       advise(at + 2 * PAGE + 1, PAGE, advice), advise(at + 1, 0, advice), advise(at + 2 * PAGE, 0, advice),
	       advise(at + 2 * PAGE, -(size_t)PAGE, advice), advise(at + 2 * PAGE, SIZE_MAX, advice), advise(0, PAGE, advice),
	       advise((void *)0xffff800000000000, PAGE, advice));
	for (int i = 0; i < count - 1; i++)
		munmap(kinds[i], SIZE);
	shmdt(kinds[count - 1]);
	shmctl(segment, IPC_RMID, 0);
	munmap(at, SIZE);
}

static int thp(void) { return prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0); }

static void forbid(int flags)
{
	int answer = prctl(PR_SET_THP_DISABLE, 1, flags, 0, 0);

	printf("huge pages: %d %d\n", answer, thp());
}

int main(int count, char **words)
{
	int file = open("/tmp", O_TMPFILE | O_RDWR, 0600), memory = memfd_create("memory", 0);

	if (count > 1) {
		printf("after execve %d\n", thp());
		return 0;
	}
	setlinebuf(stdout);
	ftruncate(file, SIZE);
	ftruncate(memory, SIZE);
	for (int advice = -1; advice < 30; advice++)
		ask(advice, file, memory);
	/* 100 and 101 poison memory of the machine. */
	for (int advice = 102; advice < 106; advice++)
		ask(advice, file, memory);

	/* A flag that there is not, one of Linux 6.18, none. */
	forbid(4);
	forbid(2);
	forbid(0);
	if (!fork()) {
		printf("after fork %d\n", thp());
		execl(words[0], words[0], "again", (char *)0);
	}
	wait(0);
	return 0;
}
