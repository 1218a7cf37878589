/* A pool of its own for advised sites: blocks one after the other in a range of addresses, so that
 * small ones share huge pages. A block that was given back is taken again by one
 * of the same class of sizes; whole huge pages in it go back to the kernel.
 *
 * One lock guards it, which a fork holds. Sites are recognised by the caller's address: the file
 * mapped there and the place in it, as a recording has them.
 */
#define _GNU_SOURCE
#include "advised.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define HUGE (2ul << 20)
/* Addresses, not memory: the first that can be had of these. */
#define MOST (256ul << 30)
#define LEAST (1ul << 30)
/* By which it becomes writable. */
#define STEP (16 * HUGE)

#define SITES 256
#define CALLERS 4096

struct site {
	const char *file;
	size_t letters;
	unsigned long offset;
};

/* Before each block. */
struct header {
	size_t size;
	struct header *next;
};

static enum way { HUGE_PAGES, COLLAPSED, POPULATED } way;
static const char *const ways[] = {
	[HUGE_PAGES] = "huge:",
	[COLLAPSED] = "collapse:",
	[POPULATED] = "populate:",
};

static struct site sites[SITES];
static int site_count;
static char text[1 << 15];

/* What is known of callers: the address, shifted up by one, and whether it is named. */
static _Atomic uintptr_t callers[CALLERS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *start, *used, *writable, *end;

/* Blocks given back, by class: sizes in steps of 16 up to 1 KiB, then four to each power of two. */
#define SMALL 1024
#define CLASSES (SMALL / 16 + 4 * 40)
static struct header *free_blocks[CLASSES];

/* The class of blocks of at least `size` bytes. */
static unsigned class_of(size_t size)
{
	if (size <= SMALL)
		return (size + 15) / 16;

	unsigned top = 63 - __builtin_clzl(size - 1);
	unsigned quarter = (size - 1) >> (top - 2) & 3;

	return SMALL / 16 + 4 * (top - 10) + quarter + 1;
}

static size_t class_size(unsigned class)
{
	if (class <= SMALL / 16)
		return class ? class * 16ul : 16;
	class -= SMALL / 16 + 1;
	return (5 + class % 4) << (8 + class / 4);
}

/* Takes the text of a hexadecimal number. */
static unsigned long hexadecimal(const char **at)
{
	unsigned long number = 0;

	for (;; (*at)++) {
		char digit = **at;

		if (digit >= '0' && digit <= '9')
			number = number << 4 | (unsigned long)(digit - '0');
		else if (digit >= 'a' && digit <= 'f')
			number = number << 4 | (unsigned long)(digit - 'a' + 10);
		else
			return number;
	}
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* Memory that the pool or a mapping has from now on. It is collapsed from a page in each huge page: of
 * none there is nothing to collapse. */
static void give(char *memory, size_t length)
{
	int error = errno;

	if (way == POPULATED) {
		madvise(memory, length, MADV_POPULATE_WRITE);
	} else {
		madvise(memory, length, MADV_HUGEPAGE);
		if (way == COLLAPSED) {
			for (size_t at = 0; at < length; at += HUGE)
				madvise(memory + at, 1, MADV_POPULATE_WRITE);
			madvise(memory, length, MADV_COLLAPSE);
		}
	}
	errno = error;
}

int advised_set_up(const char *named)
{
	size_t letters = 0;

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (strncmp(named, ways[i], strlen(ways[i])))
			continue;
		way = (enum way)i;
		named += strlen(ways[i]);
		letters = strlen(named);
	}
	if (!letters || letters >= sizeof(text))
		return 0;
	memcpy(text, named, letters + 1);
	for (char *at = text; *at && site_count < SITES;) {
		char *next = strchrnul(at, ';');
		char *plus = memrchr(at, '+', (size_t)(next - at));

		if (plus) {
			const char *digits = plus + 1;

			sites[site_count++] = (struct site){at, (size_t)(plus - at), hexadecimal(&digits)};
		}
		at = *next ? next + 1 : next;
	}
	for (size_t bytes = MOST; bytes >= LEAST; bytes /= 4) {
		char *found = mmap(NULL, bytes + HUGE, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (found == MAP_FAILED)
			continue;
		start = (char *)(((uintptr_t)found + HUGE - 1) & ~(HUGE - 1));
		used = writable = start;
		end = start + bytes;
		pthread_atfork(before_fork, after_fork, after_fork);
		return site_count;
	}
	return 0;
}

/* Finds the file that is mapped at an address, in one line of proc_pid_maps(5). */
static int names(const char *line, const char *line_end, uintptr_t address)
{
	const char *at = line;
	uintptr_t first = hexadecimal(&at);

	at++;
	if (address < first || address >= hexadecimal(&at))
		return -1;
	/* The permissions, and then the offset in the file. */
	at += 6;

	unsigned long offset = hexadecimal(&at) + (address - first);
	const char *slash = memrchr(at, '/', (size_t)(line_end - at));

	for (int i = 0; slash && i < site_count; i++) {
		const struct site *site = &sites[i];

		if (site->offset == offset && (size_t)(line_end - slash - 1) == site->letters &&
		    !memcmp(slash + 1, site->file, site->letters))
			return 1;
	}
	return 0;
}

/* Looks for an address in the mappings of this process. */
static int looked_up(uintptr_t address)
{
	char piece[4096 + 1];
	size_t kept = 0;
	int found = -1;
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while (file >= 0 && found < 0) {
		ssize_t more = read(file, piece + kept, sizeof(piece) - 1 - kept);

		if (more <= 0)
			break;
		kept += (size_t)more;

		char *line = piece;
		char *line_end;

		while (found < 0 && (line_end = memchr(line, '\n', kept - (size_t)(line - piece)))) {
			found = names(line, line_end, address);
			line = line_end + 1;
		}
		kept -= (size_t)(line - piece);
		memmove(piece, line, kept);
	}
	if (file >= 0)
		close(file);
	return found > 0;
}

int advised_site(const void *caller)
{
	uintptr_t address = (uintptr_t)caller;
	_Atomic uintptr_t *place = &callers[(address * 0x9e3779b97f4a7c15ul) >> 52];
	uintptr_t known = atomic_load_explicit(place, memory_order_relaxed);

	if (!site_count)
		return 0;
	if (known >> 1 != address) {
		known = address << 1 | (uintptr_t)looked_up(address);
		atomic_store_explicit(place, known, memory_order_relaxed);
	}
	return known & 1;
}

/* A new block; the lock is held. */
static struct header *fresh(size_t size)
{
	size_t bytes = size + sizeof(struct header);

	if (bytes > (size_t)(end - used))
		return NULL;

	char *until = used + bytes;

	if (until > writable) {
		size_t more = ((size_t)(until - writable) + STEP - 1) / STEP * STEP;

		if (more > (size_t)(end - writable))
			more = (size_t)(end - writable);
		if (mprotect(writable, more, PROT_READ | PROT_WRITE))
			return NULL;
		give(writable, more);
		writable += more;
	}

	struct header *block = (struct header *)used;

	used = until;
	block->size = size;
	return block;
}

/* The whole huge pages in a block, if there are any, which it has no more once it was given back. */
static int whole(const struct header *block, char **first, size_t *length)
{
	uintptr_t memory = (uintptr_t)(block + 1);
	uintptr_t from = (memory + HUGE - 1) & ~(HUGE - 1);
	uintptr_t to = (memory + block->size) & ~(HUGE - 1);

	*first = (char *)from;
	*length = to - from;
	return from < to;
}

void *advised_take(size_t size, size_t alignment, int zeroed)
{
	size_t wanted = alignment > 16 ? size + alignment : size;

	if (!start || wanted < size || wanted >= MOST)
		return NULL;

	unsigned class = class_of(wanted);

	pthread_mutex_lock(&lock);

	struct header *block = free_blocks[class];
	int used_before = block != NULL;

	if (block)
		free_blocks[class] = block->next;
	else
		block = fresh(class_size(class));
	pthread_mutex_unlock(&lock);
	if (!block)
		return NULL;

	char *memory = (char *)(block + 1);
	char *first;
	size_t length;

	if (used_before && way != HUGE_PAGES && whole(block, &first, &length))
		give(first, length);
	if (alignment > 16) {
		char *aligned = (char *)(((uintptr_t)memory + alignment - 1) & ~(alignment - 1));
		struct header *moved = (struct header *)aligned - 1;
		size_t left = block->size - (size_t)(aligned - memory);

		moved->size = left;
		memory = aligned;
	}
	if (zeroed && used_before)
		memset(memory, 0, size);
	return memory;
}

int advised_has(const void *memory)
{
	return start && (const char *)memory >= start && (const char *)memory < end;
}

size_t advised_size(const void *memory)
{
	return ((const struct header *)memory - 1)->size;
}

void advised_give_back(void *memory)
{
	struct header *block = (struct header *)memory - 1;
	unsigned class = class_of(block->size);
	char *first;
	size_t length;

	if (whole(block, &first, &length))
		madvise(first, length, MADV_DONTNEED);
	/* An aligned one may be less than its class has. */
	if (class_size(class) > block->size)
		class--;
	pthread_mutex_lock(&lock);
	block->next = free_blocks[class];
	free_blocks[class] = block;
	pthread_mutex_unlock(&lock);
}

void advised_map(void *memory, size_t length)
{
	give(memory, length);
}
