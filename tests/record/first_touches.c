/* Touches memory first in several ways, with work between: first_touches nodes|doubled|zeros|counted|written|executed|forked */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L

/* 300,000 accesses. */
static void work(void)
{
	static volatile long cells[64];

	for (long i = 0; i < 150000; i++)
		cells[i % 64] += i;
}

static char *map(long bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* A heap that grows, page by page. */
static void nodes(void)
{
	for (int step = 0; step < 50; step++, work())
		for (int node = 0; node < 500; node++)
			memset(malloc(200), 1, 200);
}

/* An array that is copied to one of twice the size, and given back. */
static void doubled(void)
{
	long bytes = 16 * PAGE;
	char *old = map(bytes);

	memset(old, 1, bytes);
	for (; bytes < 2048 * PAGE; bytes *= 2) {
		char *twice = map(2 * bytes);

		memcpy(twice, old, bytes);
		munmap(old, bytes);
		for (int i = 0; i < 7; i++)
			work();
		memset(twice + bytes, 1, bytes);
		old = twice;
	}
}

/* Memory of which one half is stored to, and the other only loaded from. */
static void zeros(void)
{
	volatile char *memory = map(2048 * PAGE);
	long page = 0;

	for (int step = 0; step < 50; step++, work())
		for (int i = 0; i < 20; i++, page++) {
			memory[page * PAGE] = 1;
			(void)memory[(1024 + page) * PAGE];
		}
}

/* Counters of which each is loaded before it is stored to. */
static void counted(void)
{
	volatile char *memory = map(1024 * PAGE);
	long page = 0;

	for (int step = 0; step < 50; step++, work())
		for (int i = 0; i < 20; i++, page++)
			memory[page * 7 % 1024 * PAGE]++;
}

/* Memory that is stored to, and written to a file after that. */
static void written(void)
{
	char *memory = map(1024 * PAGE);
	int nowhere = open("/dev/null", O_WRONLY);

	for (int step = 0; step < 50; step++, work()) {
		char *part = memory + step * 20 * PAGE;

		for (int i = 0; i < 20; i++)
			part[i * PAGE] = 1;
		if (write(nowhere, part, 20 * PAGE) != 20 * PAGE)
			_exit(1);
	}
}

/* Files of which one half is code and the other data, as libraries are: both are touched near where they meet. */
static void executed(void)
{
	const long data = 24 * PAGE, code = 24 * PAGE;
	char *bytes = map(data + code);
	FILE *file = tmpfile();

	memset(bytes, 0xc3, data + code); /* ret */
	if (!file || write(fileno(file), bytes, data + code) != data + code)
		_exit(1);
	for (int step = 0; step < 50; step++, work()) {
		/* Faults map 16 pages, aligned: the border is in the midst of these. */
		char *start = (char *)(((long)map(2 * (data + code)) | 0xffff) + 1);
		int flags = MAP_PRIVATE | MAP_FIXED;

		mmap(start, data + code, PROT_READ, flags, fileno(file), 0);
		mmap(start + data, code, PROT_READ | PROT_EXEC, flags, fileno(file), data);
		work();
		(void)*(volatile char *)(start + data - PAGE);
		((void (*)(void))(start + data + PAGE))();
	}
}

/* Memory that a child stores to, of which it has copies then. */
static void forked(void)
{
	char *memory = map(1024 * PAGE);
	int status;

	memset(memory, 1, 1024 * PAGE);
	if (fork() == 0) {
		for (int step = 0; step < 50; step++, work())
			for (int i = 0; i < 15; i++)
				memory[(step * 15 + i) * PAGE] = 2;
		_exit(0);
	}
	wait(&status);
}

int main(int count, char **words)
{
	switch (count > 1 ? words[1][0] : 0) {
	case 'n':
		nodes();
		return 0;
	case 'd':
		doubled();
		return 0;
	case 'z':
		zeros();
		return 0;
	case 'c':
		counted();
		return 0;
	case 'w':
		written();
		return 0;
	case 'e':
		executed();
		return 0;
	case 'f':
		forked();
		return 0;
	}
	return 1;
}
