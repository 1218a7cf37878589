// SPDX-License-Identifier: GPL-2.0
/*
 * A large folio that one process maps is written without a copy, whoever mapped
 * it before: a third process while two others did, and one page of it that is
 * left. What another process maps is copied all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hugepage_settings.h"
#include "kselftest.h"
#include "vm_util.h"

#define BEFORE	1	/* in every page before anybody writes to it */

static int pagemap_fd, kpageflags_fd;
static char *area, *folio;
static size_t pmd_size, size;
static struct thp_settings settings;

static bool is_folio(void)
{
	const unsigned long pfn = pagemap_get_pfn(pagemap_fd, folio);
	const unsigned long nr = size / psize();
	uint64_t flags;
	unsigned long i;

	if (pfn == -1ul || pfn % nr || pageflags_get(pfn, kpageflags_fd, &flags) ||
	    !(flags & KPF_COMPOUND_HEAD))
		return false;
	for (i = 1; i < nr; i++)
		if (pagemap_get_pfn(pagemap_fd, folio + i * psize()) != pfn + i)
			return false;
	return true;
}

static void allow(int order)
{
	int i;

	for (i = 0; i < NR_ORDERS; i++)
		settings.hugepages[i].enabled = i == order ? THP_MADVISE : THP_NEVER;
	thp_write_settings(&settings);
}

static bool make_folio(int order)
{
	size_t page;

	size = psize() << order;
	area = mmap(NULL, 2 * pmd_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (area == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	folio = (char *)(((uintptr_t)area + pmd_size - 1) & ~(pmd_size - 1));
	madvise(folio, size, MADV_HUGEPAGE);
	allow(order);
	memset(folio, BEFORE, size);
	/* Nothing moves what is there. */
	allow(-1);
	/* By entries of a page table: an entry for the whole folio is a single mapping. */
	if (mprotect(folio, psize(), PROT_READ) ||
	    mprotect(folio, psize(), PROT_READ | PROT_WRITE))
		ksft_exit_fail_perror("mprotect");
	for (page = 0; page < size; page += psize())
		folio[page] = BEFORE;
	return is_folio();
}

/* Number of pages from @first on that a write has copied, or -1 if one held something else */
static int write_pages(size_t first)
{
	int copied = 0;
	size_t at;

	for (at = first; at < size; at += psize()) {
		const unsigned long pfn = pagemap_get_pfn(pagemap_fd, folio + at);

		if (folio[at] != BEFORE)
			return -1;
		folio[at]++;
		copied += pagemap_get_pfn(pagemap_fd, folio + at) != pfn;
	}
	return copied;
}

/* A child that does nothing until the pipe is closed */
static pid_t child_waits(int pipe_fds[2])
{
	const pid_t pid = fork();
	char c;

	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (pid)
		return pid;
	close(pipe_fds[1]);
	_exit(read(pipe_fds[0], &c, 1) != 0);
}

static void end(pid_t pid, int pipe_fds[2])
{
	close(pipe_fds[1]);
	close(pipe_fds[0]);
	if (waitpid(pid, NULL, 0) != pid)
		ksft_exit_fail_perror("waitpid");
}

/* Three processes map the folio; the third is left. It says how many pages it copied. */
static int third_is_left(void)
{
	int second_fds[2], go[2], answer[2], copied = -1;
	pid_t second, third;
	char c = 0;

	if (pipe(second_fds) || pipe(go) || pipe(answer))
		ksft_exit_fail_perror("pipe");
	second = child_waits(second_fds);
	third = fork();
	if (third < 0)
		ksft_exit_fail_perror("fork");
	if (!third) {
		close(second_fds[1]);
		pagemap_fd = open("/proc/self/pagemap", O_RDONLY);
		if (read(go[0], &c, 1) == 1)
			copied = write_pages(0);
		_exit(write(answer[1], &copied, sizeof(copied)) != sizeof(copied));
	}
	munmap(folio, size);
	end(second, second_fds);
	if (write(go[1], &c, 1) != 1 || read(answer[0], &copied, sizeof(copied)) != sizeof(copied))
		ksft_exit_fail_perror("the third process");
	close(answer[0]);
	close(answer[1]);
	close(go[0]);
	end(third, go);
	return copied;
}

static int one_page_is_left(void)
{
	const size_t last = size - psize();
	int fds[2];

	if (pipe(fds))
		ksft_exit_fail_perror("pipe");
	end(child_waits(fds), fds);
	if (madvise(folio, last, MADV_DONTNEED))
		ksft_exit_fail_perror("MADV_DONTNEED");
	return write_pages(last);
}

static int child_is_left(void)
{
	int fds[2], copied;
	pid_t child;

	if (pipe(fds))
		ksft_exit_fail_perror("pipe");
	child = child_waits(fds);
	copied = write_pages(0);
	end(child, fds);
	return copied;
}

static const struct {
	const char *name;
	int (*copied)(void);
	bool shared;
} tests[] = {
	{ "third of three processes left", third_is_left, false },
	{ "one page left", one_page_is_left, false },
	{ "child left", child_is_left, true },
};

int main(void)
{
	const int orders[] = { 2, 4, 9 };
	unsigned long supported;
	unsigned int i, j;
	int copied, nr;

	ksft_print_header();
	if (geteuid())
		ksft_exit_skip("needs root, for frames in pagemap\n");
	if (!thp_available())
		ksft_exit_skip("needs transparent huge pages\n");
	pagemap_fd = open("/proc/self/pagemap", O_RDONLY);
	kpageflags_fd = open("/proc/kpageflags", O_RDONLY);
	pmd_size = read_pmd_pagesize();
	if (pagemap_fd < 0 || kpageflags_fd < 0 || !pmd_size)
		ksft_exit_skip("needs pagemap and kpageflags\n");
	supported = thp_supported_orders();
	thp_save_settings();
	thp_read_settings(&settings);
	ksft_set_plan(ARRAY_SIZE(tests) * ARRAY_SIZE(orders));

	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		for (j = 0; j < ARRAY_SIZE(orders); j++) {
			if (!(supported & 1ul << orders[j]) || !make_folio(orders[j])) {
				ksft_test_result_skip("%s: no folio of order %d\n", tests[i].name,
						      orders[j]);
				continue;
			}
			copied = tests[i].copied();
			nr = tests[i].shared ? size / psize() : 0;
			ksft_test_result(copied == nr, "%s, order %d: %d pages copied, %d shared\n",
					 tests[i].name, orders[j], copied, nr);
			munmap(area, 2 * pmd_size);
		}
	}
	thp_restore_settings();
	ksft_finished();
}
