// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that treat files otherwise than anonymous memory: they must not notice that
 * private memory is a file's. Run it under fbmm-run; without, it tests itself.
 */
#include "lab.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#ifndef UFFD_FEATURE_WP_ASYNC	/* Linux 6.7 */
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

#ifndef MADV_GUARD_INSTALL	/* Linux 6.13 */
#define MADV_GUARD_INSTALL 102
#endif

#define SIZE	(16 * page_size)

static const char *directory;

static void test_msync(void)
{
	char *a = map_private(SIZE, 0);

	fill(a, SIZE, 1);
	test_result(!msync(a, SIZE, MS_SYNC) && !msync(a, SIZE, MS_ASYNC), "msync()");
	munmap(a, SIZE);
}

static void test_remap_file_pages(void)
{
	char *a = map_private(SIZE, 0);

	fill(a, SIZE, 2);
	errno = 0;
	test_result(syscall(SYS_remap_file_pages, a, page_size, 0, 8, 0) < 0 &&
		    errno == EINVAL && filled(a, SIZE, 2),
		    "remap_file_pages() of private memory is refused");
	munmap(a, SIZE);
}

/* Marks in page tables, which fork() would lose: glibc then protects a stack's end. */
static void test_guard(void)
{
	char *a = map_private(SIZE, 0);

	fill(a, SIZE, 4);
	errno = 0;
	test_result(madvise(a, page_size, MADV_GUARD_INSTALL) && errno == EINVAL &&
		    filled(a, SIZE, 4),
		    "MADV_GUARD_INSTALL is refused");
	munmap(a, SIZE);
}

/* A program that starts another needs memory for both. */
static int child_limited(void *command)
{
	return system(command) ? 1 : 0;
}

static void test_file_size_limit(void)
{
	test_result(!in_child(child_limited, "ulimit -f 8; /bin/true && sh -c '/bin/true'"),
		    "a limit of the size of files is none of memory");
}

/* As a set-user-ID program that was started with the file as its standard error */
static int child_other_user(void *setting)
{
	const int fd = open(setting, O_RDWR);

	if (fd < 0)
		fail(setting);
	if (setresuid(65534, 65534, 65534))
		fail("setresuid");
	errno = 0;
	return write(fd, "/\n", 2) < 0 && errno == EPERM ? 0 : 1;
}

static bool uffd_watch(int fd, void *memory, size_t size)
{
	struct uffdio_register range = {
		.range = { (uintptr_t)memory, size },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	return !ioctl(fd, UFFDIO_REGISTER, &range);
}

static void test_uffd_private(int fd)
{
	char *a = map_private(SIZE, 0);
	bool watched;

	errno = 0;
	watched = uffd_watch(fd, a, SIZE);
	test_result(*directory ? !watched && errno == EINVAL : watched,
		    "write protection by userfaultfd: %s", strerror(errno));
	munmap(a, SIZE);
}

/* Where a page is missing, write protection leaves a mark in the page table. */
static void test_uffd_file(int fd)
{
	struct uffdio_writeprotect protect = { .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	char path[512], *a;
	int file;

	snprintf(path, sizeof(path), "%s/calls", directory);
	file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file < 0 || ftruncate(file, SIZE))
		fail(path);
	unlink(path);
	a = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (a == MAP_FAILED)
		fail("mmap");
	if (!uffd_watch(fd, a, SIZE))
		fail("UFFDIO_REGISTER");
	protect.range.start = (uintptr_t)a;
	protect.range.len = SIZE;
	if (ioctl(fd, UFFDIO_WRITEPROTECT, &protect))
		fail("UFFDIO_WRITEPROTECT");
	alarm(60);	/* It once faulted for ever. */
	test_result(zero(a, SIZE / 2), "a watched file of one's own can be read");
	fill(a, SIZE, 3);
	alarm(0);
	test_result(filled(a, SIZE, 3), "and written");
	munmap(a, SIZE);
	close(file);
}

static void test_userfaultfd(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };
	const int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api)) {
		test_skip("userfaultfd: %s", strerror(errno));
		return;
	}
	test_uffd_private(fd);
	if (*directory)
		test_uffd_file(fd);
	close(fd);
}

int main(void)
{
	lab_init();
	directory = default_mount();
	test_msync();
	test_remap_file_pages();
	if (*directory)
		test_guard();
	test_file_size_limit();
	if (!access(FBMM_SETTING, F_OK))
		test_result(!in_child(child_other_user, FBMM_SETTING),
			    "who has changed its user does not set a memory file system");
	test_userfaultfd();
	return test_end();
}
