/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests and benchmarks of folio accounting have in common. */
#ifndef _LAB_H
#define _LAB_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE		/* glibc before 2.37 */
#define MADV_COLLAPSE 25
#endif

#define KSFT_SKIP 4
#define MTHP "/sys/kernel/mm/transparent_hugepage/hugepages-%zukB/enabled"

static size_t page_size = 4096;
static const unsigned int pmd_order = 9;
static int pagemap_fd = -1;
static unsigned int test_count, test_failures;

static inline void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

__attribute__((format(printf, 2, 3)))
static inline void test_result(bool ok, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	printf("%sok %u ", ok ? "" : "not ", ++test_count);
	vprintf(fmt, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	test_failures += !ok;
}

__attribute__((format(printf, 1, 2)))
static inline void test_skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	printf("ok %u # SKIP ", ++test_count);
	vprintf(fmt, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
}

static inline int test_end(void)
{
	printf("1..%u\n", test_count);
	return test_failures != 0;
}

static inline bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* Only folios of this order, and single pages, for anonymous memory. */
static inline void allow_order(unsigned int order)
{
	char path[128];
	unsigned int other;

	for (other = 1; other <= pmd_order; other++) {
		snprintf(path, sizeof(path), MTHP, page_size << other >> 10);
		write_file(path, other == order ? "madvise" : "never");
	}
}

static inline bool foliomap_on(void)
{
	char line[4096] = "";
	int fd = open("/proc/cmdline", O_RDONLY);

	if (fd < 0 || read(fd, line, sizeof(line) - 1) < 0)
		fail("/proc/cmdline");
	close(fd);
	return strstr(line, "foliomap=on");
}

static inline void lab_init(void)
{
	page_size = sysconf(_SC_PAGESIZE);
	pagemap_fd = open("/proc/self/pagemap", O_RDONLY);
	if (pagemap_fd < 0)
		fail("/proc/self/pagemap");
}

static inline uint64_t pagemap(const void *addr)
{
	/* The file is that of whoever opened it; a child needs its own. */
	static pid_t owner;
	uint64_t entry;

	if (owner != getpid()) {
		owner = getpid();
		close(pagemap_fd);
		pagemap_fd = open("/proc/self/pagemap", O_RDONLY);
	}
	if (pread(pagemap_fd, &entry, sizeof(entry),
		  (uintptr_t)addr / page_size * sizeof(entry)) != sizeof(entry))
		fail("pagemap");
	return entry;
}

static inline bool page_exclusive(const void *addr)
{
	return pagemap(addr) & 1ull << 56;
}

/* Page frame number, 0 if not present. */
static inline uint64_t page_frame(const void *addr)
{
	const uint64_t entry = pagemap(addr);

	return entry >> 63 ? entry & ((1ull << 55) - 1) : 0;
}

static inline unsigned long vmstat(const char *name)
{
	char line[128], want[64];
	unsigned long value = 0;
	FILE *file = fopen("/proc/vmstat", "r");

	if (!file)
		fail("/proc/vmstat");
	snprintf(want, sizeof(want), "%s %%lu", name);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, want, &value) == 1)
			break;
	fclose(file);
	return value;
}

/* Between these linux/guest/count.c counts; without it they do nothing. */
static inline void mark_begin(void)
{
	asm volatile("nopl 0x07a61ab1(%%rax)" ::: "memory");
}

static inline void mark_end(void)
{
	asm volatile("nopl 0x07a61ab2(%%rax)" ::: "memory");
}

/* Address space for naturally aligned folios of any order. */
static inline char *reserve(size_t size)
{
	const size_t align = page_size << pmd_order;
	char *raw = mmap(NULL, size + align, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *start;

	if (raw == MAP_FAILED)
		fail("mmap");
	start = (char *)(((uintptr_t)raw + align - 1) & ~(align - 1));
	munmap(raw, start - raw);
	munmap(start + size, raw + align - start);
	return start;
}

/* Whether the memory is backed by whole folios of this order, mapped by PTEs. */
static inline bool backed_by(const char *start, size_t size, unsigned int order)
{
	const uint64_t mask = (1ull << order) - 1;
	uint64_t first = 0;
	size_t page;

	for (page = 0; page < size / page_size; page++) {
		const uint64_t frame = page_frame(start + page * page_size);

		if (!(page & mask))
			first = frame;
		if (!frame || (first & mask) || frame != first + (page & mask))
			return false;
	}
	return true;
}

/*
 * Anonymous memory in folios of one order, written once and mapped by PTEs, also
 * where the order allows a PMD. NULL if there were not enough free folios.
 */
static inline char *alloc_folios(size_t size, unsigned int order)
{
	char *start = reserve(size);
	size_t offset;

	allow_order(order);
	if (madvise(start, size, order ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
		fail("madvise(MADV_HUGEPAGE)");
	for (offset = 0; offset < size; offset += page_size)
		start[offset] = 1;
	if (order == pmd_order) {
		/* Protecting a part splits the PMD, not the folio. */
		for (offset = 0; offset < size; offset += page_size << order) {
			mprotect(start + offset, page_size, PROT_READ);
			mprotect(start + offset, page_size, PROT_READ | PROT_WRITE);
		}
	}
	if (!backed_by(start, size, order)) {
		munmap(start, size);
		return NULL;
	}
	return start;
}

static inline char *alloc_folio(unsigned int order)
{
	return alloc_folios(page_size << order, order);
}

static inline void await_char(int fd, char *c)
{
	if (read(fd, c, 1) != 1)
		fail("the other process ended");
}

#endif /* _LAB_H */
