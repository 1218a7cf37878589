// SPDX-License-Identifier: GPL-2.0
/*
 * Memory calls of a process whose memory is a memory file system's do what they do
 * to anonymous memory. Run it under fbmm-run; run without, it tests itself: all
 * but the first result must hold for Linux's own anonymous memory.
 */
#include "scattered.h"

#include <glob.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define SIZE	(64 * page_size)
/* Of what a memory file system may undo by moving or swapping a page just then. */
#define TRIES	20

static void test_mmap(void)
{
	char *a = map_private(SIZE, 0), *b;
	bool mapped = false;
	int tries;

	test_result(zero(a, SIZE), "fresh memory is zero");
	fill(a, SIZE, 1);
	test_result(filled(a, SIZE, 1), "memory keeps what is written");
	munmap(a + SIZE / 4, SIZE / 2);
	b = mmap(a + SIZE / 4, SIZE / 2, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	test_result(b == a + SIZE / 4 && zero(b, SIZE / 2),
		    "an unmapped part mapped again is zero");
	test_result(filled(a, SIZE / 4, 1), "its neighbour is as before");
	fill(b, SIZE / 2, 2);
	b = mmap(a, SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	test_result(b == a && zero(a, SIZE), "mapped over with MAP_FIXED, all is zero");

	for (tries = 0; tries < TRIES && !mapped; tries++) {
		munmap(a, SIZE);
		a = map_private(SIZE, MAP_POPULATE);
		mapped = page_frame(a) && page_frame(a + SIZE - page_size);
	}
	test_result(mapped, "MAP_POPULATE maps pages");
	test_result(zero(a, SIZE), "MAP_POPULATE gives zeros");
	munmap(a, SIZE);
}

static unsigned long mappings(void)
{
	unsigned long count = 0;
	FILE *file = fopen("/proc/self/maps", "r");
	int c;

	while ((c = getc(file)) != EOF)
		count += c == '\n';
	fclose(file);
	return count;
}

static void test_merge(void)
{
	const unsigned long before = mappings();
	char *at[100];
	int i;

	for (i = 0; i < 100; i++)
		at[i] = map_private(page_size, 0);
	test_result(mappings() <= before + 2, "neighbouring mappings share a VMA");
	for (i = 0; i < 100; i++)
		munmap(at[i], page_size);
}

static void test_brk(void)
{
	char *start = sbrk(0), *end;

	if (sbrk(SIZE) != start)
		fail("sbrk");
	test_result(zero(start, SIZE), "a larger heap is zero");
	fill(start, SIZE, 3);
	if (brk(start + SIZE / 2))
		fail("brk");
	end = sbrk(SIZE / 2);
	test_result(filled(start, SIZE / 2, 3), "a smaller heap keeps the rest");
	test_result(zero(end, SIZE / 2), "grown again, the heap is zero");
	if (brk(start))
		fail("brk");
}

static int child_writes_zeros(void *memory)
{
	if (!zero(memory, SIZE))
		return 1;
	fill(memory, SIZE, 22);
	return filled(memory, SIZE, 22) ? 0 : 2;
}

/* Read first, which may map one page for all */
static void test_untouched(void)
{
	char *a = map_private(SIZE, 0);

	test_result(zero(a, SIZE), "what was never written is zero");
	test_result(!in_child(child_writes_zeros, a) && zero(a, SIZE),
		    "and stays so when a child writes to it");
	fill(a, SIZE / 2, 20);
	test_result(filled(a, SIZE / 2, 20) && zero(a + SIZE / 2, SIZE / 2),
		    "and beside what is written");
	mprotect(a, SIZE, PROT_READ);
	test_result(!mlock(a + SIZE / 2, SIZE / 2) && zero(a + SIZE / 2, SIZE / 2),
		    "and locked, read-only");
	mprotect(a, SIZE, PROT_READ | PROT_WRITE);
	fill(a + SIZE / 2, SIZE / 2, 21);
	test_result(filled(a, SIZE / 2, 20) && filled(a + SIZE / 2, SIZE / 2, 21),
		    "and is written after mprotect()");
	munmap(a, SIZE);
}

static long resident_kb(void)
{
	return proc_kb("/proc/self/status", NULL, "VmRSS");
}

static int child_has_zeros(void *memory)
{
	return zero(memory, 8 << 20) ? 0 : 1;
}

/* Of 2 MB pages, too: what is only read is one page of zeros, until it is written. */
static void test_reading(void)
{
	const size_t size = 8 << 20, step = 64 * page_size;
	const long before = resident_kb();
	char *a = map_private(size, 0);
	const bool filled_at_once = resident_kb() - before >= (long)(size >> 11);
	bool same = zero(a, size);
	long taken = resident_kb() - before;
	size_t at;

	test_result(same && (filled_at_once || taken < (long)(size >> 12)), "reading takes %ld KB%s", taken,
		    filled_at_once ? ": it was filled when it was mapped" : "");
	test_result(!in_child(child_has_zeros, a), "a child reads it, too");
	for (at = step / 2; at < size; at += step)
		fill(a + at, page_size, 23);
	for (at = step / 2; at < size; at += step)
		same = same && filled(a + at, page_size, 23) &&
		       zero(a + at - step / 2, step / 2) &&
		       zero(a + at + page_size, step / 2 - page_size);
	test_result(same, "what is written then is there, and zeros beside it");
	munmap(a, size);
}

static int child_writes(void *memory)
{
	const size_t half = SIZE / 2;

	if (!filled(memory, SIZE, 4))
		return 1;
	fill(memory, half, 5);
	return filled(memory, half, 5) ? 0 : 2;
}

static int child_reads(void *memory)
{
	return filled(memory, SIZE, 6) ? 0 : 1;
}

static void test_fork(void)
{
	char *a = map_private(SIZE, 0);
	int ready[2], go[2];
	int status;
	pid_t pid;
	char c;

	fill(a, SIZE, 4);
	test_result(!in_child(child_writes, a), "a child has and writes its copy");
	test_result(filled(a, SIZE, 4), "the parent does not see a child's writes");

	if (pipe(ready) || pipe(go))
		fail("pipe");
	pid = fork();
	if (!pid) {
		close(go[1]);
		await_char(go[0], &c);
		_exit(filled(a, SIZE, 4) ? 0 : 1);
	}
	/* A writable page after fork(), made so by mprotect() and not by a fault */
	mprotect(a, SIZE, PROT_READ);
	mprotect(a, SIZE, PROT_READ | PROT_WRITE);
	fill(a, SIZE, 6);
	if (write(go[1], "", 1) != 1)
		fail("write");
	waitpid(pid, &status, 0);
	test_result(!status, "a child does not see the parent's writes after mprotect()");
	test_result(!in_child(child_reads, a), "nor does a later child see the earlier state");
	test_result(filled(a, SIZE, 6), "the parent keeps its own");
	close(ready[0]);
	close(ready[1]);
	close(go[0]);
	close(go[1]);
	munmap(a, SIZE);
}

static void test_fork_chain(void)
{
	char *a = map_private(SIZE, 0);
	bool ok = true;
	int depth, status;
	pid_t pid;

	fill(a, SIZE, 7);
	for (depth = 0; depth < 5; depth++) {
		pid = fork();
		if (pid)
			break;
		/* Each generation changes a page of its own. */
		fill(a + depth * page_size, page_size, 100 + depth);
	}
	for (int i = 0; i < depth; i++)
		ok &= filled(a + i * page_size, page_size, 100 + i);
	for (size_t i = depth; i < SIZE / page_size; i++)
		for (size_t at = i * page_size; at < (i + 1) * page_size; at += 4)
			ok &= *(uint32_t *)(a + at) == (uint32_t)(7 + at * 2654435761u);
	if (depth < 5) {
		waitpid(pid, &status, 0);
		ok &= !status;
	}
	if (depth)
		_exit(!ok);
	test_result(ok, "five generations keep apart");
	munmap(a, SIZE);
}

static void test_dontneed(void)
{
	char *a = map_private(SIZE, 0);

	fill(a, SIZE, 8);
	test_result(!madvise(a + page_size, SIZE - 2 * page_size, MADV_DONTNEED) &&
		    zero(a + page_size, SIZE - 2 * page_size),
		    "MADV_DONTNEED reads zeros");
	fill(a, SIZE, 8);
	if (madvise(a, SIZE, MADV_FREE))
		test_result(false, "MADV_FREE: %s", strerror(errno));
	fill(a, SIZE, 9);
	test_result(filled(a, SIZE, 9), "memory can be written after MADV_FREE");
	munmap(a, SIZE);
}

static int child_dontneed(void *memory)
{
	madvise(memory, SIZE, MADV_DONTNEED);
	return zero(memory, SIZE) ? 0 : 1;
}

static void test_dontneed_fork(void)
{
	char *a = map_private(SIZE, 0);

	fill(a, SIZE, 10);
	test_result(!in_child(child_dontneed, a) && filled(a, SIZE, 10),
		    "a child's MADV_DONTNEED does not touch the parent's pages");
	munmap(a, SIZE);
}

static int child_sees_zeros(void *memory)
{
	return zero(memory, SIZE / 2) && filled((char *)memory + SIZE / 2, SIZE / 2, 21) ? 0 : 1;
}

static void test_wipeonfork(void)
{
	char *a = map_private(SIZE, 0);

	fill(a + SIZE / 2, SIZE / 2, 21);
	fill(a, SIZE / 2, 22);
	test_result(!madvise(a, SIZE / 2, MADV_WIPEONFORK), "MADV_WIPEONFORK");
	test_result(!in_child(child_sees_zeros, a), "a child sees zeros there, and the rest");
	test_result(filled(a, SIZE / 2, 22), "the parent keeps it");
	if (madvise(a, SIZE / 2, MADV_KEEPONFORK))
		fail("MADV_KEEPONFORK");
	fill(a, SIZE, 6);
	test_result(!in_child(child_reads, a), "and so does a child after MADV_KEEPONFORK");
	munmap(a, SIZE);
}

/* Nothing is swapped, but the advice is taken and harms nothing. */
static void test_pageout(void)
{
	char *a = map_private(1 << 22, 0);

	fill(a, 1 << 22, 23);
	test_result(!madvise(a, 1 << 22, MADV_COLD) && filled(a, 1 << 22, 23), "MADV_COLD");
	test_result(!madvise(a + page_size, (1 << 22) - 2 * page_size, MADV_PAGEOUT) &&
		    filled(a, 1 << 22, 23), "MADV_PAGEOUT");
	fill(a, 1 << 22, 24);
	test_result(filled(a, 1 << 22, 24), "memory can be written afterwards");
	munmap(a, 1 << 22);
}

static void test_mremap(void)
{
	char *a = map_private(SIZE, 0), *b, *c;

	fill(a, SIZE, 11);
	b = mremap(a, SIZE, 4 * SIZE, MREMAP_MAYMOVE);
	test_result(b != MAP_FAILED && filled(b, SIZE, 11) && zero(b + SIZE, 3 * SIZE),
		    "mremap() to a larger size");
	c = map_private(4 * SIZE, 0);
	fill(c, 4 * SIZE, 12);
	a = mremap(b, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, c + SIZE);
	test_result(a == c + SIZE && filled(a, SIZE, 11) && filled(c, SIZE, 12),
		    "mremap() into the middle of a mapping");
	b = mmap(b, SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	test_result(zero(b, SIZE), "what is mapped at the old place is zero");
	fill(b, SIZE, 13);
	test_result(filled(a, SIZE, 11), "and is not what moved");
	b = mremap(b, 4 * SIZE, SIZE / 2, 0);
	test_result(b != MAP_FAILED && filled(b, SIZE / 2, 13), "mremap() to a smaller size");
	c = mremap(a, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	test_result(c != MAP_FAILED && filled(c, SIZE, 11) && zero(a, SIZE),
		    "MREMAP_DONTUNMAP leaves zeros");
	errno = 0;
	b = mremap(c, 0, SIZE, MREMAP_MAYMOVE);
	test_result(b == MAP_FAILED && errno == EINVAL,
		    "private memory cannot be mapped twice by mremap()");
}

static void test_mprotect(void)
{
	char *a = map_private(SIZE, 0);
	int fd[2];

	if (pipe(fd))
		fail("pipe");
	fill(a, SIZE, 14);
	mprotect(a, SIZE, PROT_NONE);
	test_result(write(fd[1], a, 1) < 0 && errno == EFAULT, "PROT_NONE");
	mprotect(a, SIZE, PROT_READ | PROT_EXEC);
	test_result(filled(a, SIZE, 14), "protection goes and the contents stay");
	close(fd[0]);
	close(fd[1]);
	munmap(a, SIZE);
}

/* Whether the only mount swaps: then some of the memory may be out at any time. */
static bool swaps(void)
{
	glob_t found;
	const bool any = !glob("/sys/fs/*mfs/*/swapped", 0, NULL, &found);

	globfree(&found);
	return any;
}

/*
 * A field of the mapping's in smaps, once it is @least KB or tried often: a page that
 * the file system moves is not mapped until it is touched, by MADV_POPULATE_READ or
 * MADV_POPULATE_WRITE.
 */
static long mapped_kb(char *memory, size_t size, int touch, const char *field, long least)
{
	long kb = 0;
	int tries;

	for (tries = 0; tries < TRIES && kb < least; tries++) {
		if (madvise(memory, size, touch))
			fail("madvise(MADV_POPULATE_READ) or MADV_POPULATE_WRITE");
		kb = proc_kb("/proc/self/smaps", memory, field);
	}
	return kb;
}

/*
 * VmRSS is the sum of three counters that lag by up to 32 pages a CPU each: between two
 * readings by 1.5 MB with two CPUs.
 */
#define LAG	1536

static void test_accounting(void)
{
	const size_t size = 8 << 20;
	const long before = proc_kb("/proc/self/status", NULL, "VmRSS");
	char *a = map_private(size, 0);
	long rss, pss;
	int status;
	pid_t pid;
	int go[2];
	char c;

	fill(a, size, 15);
	rss = proc_kb("/proc/self/status", NULL, "VmRSS") - before;
	test_result(labs(rss - (long)(size >> 10)) <= LAG, "RSS grows by 8192 KB: %ld", rss);
	pss = mapped_kb(a, size, MADV_POPULATE_WRITE, "Private_Dirty", size >> 10);
	test_result(pss >= (long)(size >> 10), "8192 KB are private and dirty: %ld", pss);
	if (pipe(go))
		fail("pipe");
	pid = fork();
	if (!pid) {
		bool same = filled(a, size, 15);

		if (write(go[1], same ? "y" : "n", 1) != 1)
			fail("write");
		pause();
	}
	close(go[1]);
	await_char(go[0], &c);
	test_result(c == 'y' && filled(a, size, 15), "parent and child read the same pages");
	pss = mapped_kb(a, size, MADV_POPULATE_READ, "Pss", 4096);
	test_result(pss >= 4096 && pss < 6144, "Pss of shared pages is a half: %ld of 8192", pss);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	pss = mapped_kb(a, size, MADV_POPULATE_READ, "Pss", 8192);
	test_result(pss >= 8192, "Pss is all again when the child is gone: %ld", pss);
	close(go[0]);
	munmap(a, size);
	rss = proc_kb("/proc/self/status", NULL, "VmRSS") - before;
	test_result(rss <= LAG, "RSS is as before after munmap(): %ld more", rss);
}

static void test_mlock(void)
{
	char *a = map_private(SIZE, 0);

	test_result(!mlock(a, SIZE) && page_frame(a + SIZE / 2), "mlock() maps pages");
	test_result(proc_kb("/proc/self/smaps", a, "Locked") >= (long)(SIZE >> 10),
		    "they are accounted as locked");
	test_result(madvise(a, SIZE, MADV_DONTNEED) && errno == EINVAL,
		    "MADV_DONTNEED of locked memory is refused");
	munlock(a, SIZE);
	munmap(a, SIZE);
	test_result(proc_kb("/proc/self/status", NULL, "VmLck") == 0, "nothing stays locked");
}

static void *write_in_thread(void *memory)
{
	fill(memory, SIZE, 16);
	return NULL;
}

static void test_threads(void)
{
	char *a = map_private(8 * SIZE, 0);
	pthread_t threads[8];
	bool ok = true;
	int i;

	for (i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, write_in_thread, a + i * SIZE);
	for (i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < 8; i++)
		ok &= filled(a + i * SIZE, SIZE, 16);
	test_result(ok, "eight threads write at the same time");
	munmap(a, 8 * SIZE);
}

static void test_other_process(void)
{
	char *a = map_private(SIZE, 0), *b = malloc(SIZE);
	const int fd = open("/proc/self/mem", O_RDWR);

	if (fd < 0)
		fail("/proc/self/mem");
	fill(a, SIZE, 17);
	test_result(pread(fd, b, SIZE, (uintptr_t)a) == (ssize_t)SIZE &&
		    filled(b, SIZE, 17), "memory is read as another process does");
	fill(b, SIZE, 18);
	test_result(pwrite(fd, b, SIZE, (uintptr_t)a) == (ssize_t)SIZE &&
		    filled(a, SIZE, 18), "and written");
	close(fd);
	free(b);
	munmap(a, SIZE);
}

/* Pages in a pipe outlive the mapping and must not change when it is gone. */
static void test_vmsplice(void)
{
	char *a = map_private(SIZE, 0), *b = malloc(SIZE);
	struct iovec vec = { a, 8 * page_size };
	size_t done = 0;
	int fd[2];

	if (pipe(fd))
		fail("pipe");
	fill(a, SIZE, 19);
	if (vmsplice(fd[1], &vec, 1, 0) != (ssize_t)vec.iov_len)
		fail("vmsplice");
	munmap(a, SIZE);
	a = map_private(4 * SIZE, MAP_POPULATE);
	fill(a, 4 * SIZE, 20);
	while (done < vec.iov_len) {
		const ssize_t got = read(fd[0], b + done, vec.iov_len - done);

		if (got <= 0)
			fail("read");
		done += got;
	}
	test_result(filled(b, vec.iov_len, 19), "pages in a pipe survive munmap()");
	munmap(a, 4 * SIZE);
	free(b);
	close(fd[0]);
	close(fd[1]);
}

static void test_userfaultfd(bool managed)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	const int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	char *a = map_private(SIZE, 0);
	int err;

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api)) {
		test_skip("userfaultfd: %s", strerror(errno));
		return;
	}
	range.range.start = (uintptr_t)a;
	range.range.len = SIZE;
	err = ioctl(fd, UFFDIO_REGISTER, &range) ? errno : 0;
	test_result(err == (managed ? EINVAL : 0), "userfaultfd: %s", strerror(err));
	munmap(a, SIZE);
	close(fd);
}

int main(void)
{
	const char *mount;
	bool managed;
	char *a;

	lab_init();
	mount = default_mount();
	managed = *mount;
	a = map_private(SIZE, 0);
	test_result(is_managed(a) == managed, "memory is from %s",
		    managed ? mount : "the kernel");
	munmap(a, SIZE);
	test_mmap();
	test_merge();
	test_brk();
	test_untouched();
	test_reading();
	test_fork();
	test_fork_scattered();
	test_fork_chain();
	test_dontneed();
	test_dontneed_fork();
	test_wipeonfork();
	test_pageout();
	test_mremap();
	test_mprotect();
	if (swaps())
		test_skip("RSS and Pss: memory may be swapped out");
	else
		test_accounting();
	test_mlock();
	test_threads();
	test_other_process();
	test_vmsplice();
	test_userfaultfd(managed);
	return test_end();
}
