// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that ask whether memory is shared or a file's, and that must take private memory for
 * what it is: docs/fbmm.md has a table of them. Run it under fbmm-run; without, it tests itself.
 */
#include "lab.h"

#include <dirent.h>
#include <linux/futex.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <linux/fs.h>

#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif
#ifndef SYS_mseal	/* Linux 6.10 */
#define SYS_mseal 462
#endif

#define SIZE	(16 * page_size)
#define LARGE	((size_t)24 << 20)
#define DISK	"/run/private-disk"

static bool refused(int result, int error)
{
	return result < 0 && errno == error;
}

static void test_remove(void)
{
	char *a = map_private(SIZE, 0);

	fill(a, SIZE, 1);
	errno = 0;
	test_result(refused(madvise(a, SIZE, MADV_REMOVE), EINVAL) && filled(a, SIZE, 1),
		    "MADV_REMOVE is refused, and takes nothing");
	if (mlock(a, SIZE))
		fail("mlock");
	errno = 0;
	test_result(refused(madvise(a, SIZE, MADV_REMOVE), EINVAL) && filled(a, SIZE, 1),
		    "nor of locked memory");
	munmap(a, SIZE);
}

/* The mapping that has an address, as /proc/self/map_files would name it */
static void name_of(const char *a, char *name)
{
	unsigned long start, end;
	char line[512];
	FILE *file = fopen("/proc/self/maps", "r");

	if (!file)
		fail("/proc/self/maps");
	*name = 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && start <= (uintptr_t)a &&
		    (uintptr_t)a < end)
			sprintf(name, "%lx-%lx", start, end);
	fclose(file);
}

static void test_map_files(void)
{
	char *a = map_private(SIZE, 0), name[64], path[128];
	bool listed = false;
	struct dirent *entry;
	DIR *folder;

	fill(a, SIZE, 2);
	name_of(a, name);
	snprintf(path, sizeof(path), "/proc/self/map_files/%s", name);
	errno = 0;
	test_result(refused(open(path, O_RDWR), ENOENT), "map_files has no file of it");
	folder = opendir("/proc/self/map_files");
	if (!folder)
		fail("/proc/self/map_files");
	while ((entry = readdir(folder)))
		listed |= !strcmp(entry->d_name, name);
	closedir(folder);
	test_result(!listed, "nor lists one");
	munmap(a, SIZE);
}

/* Whoever may not write to a file sees all of its pages as there. */
static int child_mincore(void *unused)
{
	unsigned char there[2] = { 7, 7 };
	char *a, *b;

	(void)unused;
	if (setresuid(65534, 65534, 65534))
		fail("setresuid");
	a = map_private(page_size, 0);
	fill(a, page_size, 3);
	b = mmap(NULL, page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b == MAP_FAILED || mincore(a, page_size, there) ||
	    mincore(b, page_size, there + 1))
		fail("mincore");
	return !(there[0] & 1) || (there[1] & 1);
}

static int child_seals(void *unused)
{
	char *a = map_private(SIZE, 0);

	(void)unused;
	fill(a, SIZE, 4);
	if (mprotect(a, SIZE, PROT_READ))
		fail("mprotect");
	if (syscall(SYS_mseal, a, SIZE, 0))
		return 4;
	errno = 0;
	return !refused(madvise(a, SIZE, MADV_DONTNEED), EPERM) || !filled(a, SIZE, 4);
}

/* As setproctitle() of some libraries, and container managers, do */
static int child_renames(void *unused)
{
	static const char title[] = "a title of one's own";
	char *a = map_private(SIZE, 0), read_back[64] = "";
	int fd;

	(void)unused;
	strcpy(a, title);
	if (prctl(PR_SET_MM, PR_SET_MM_ARG_START, a, 0, 0) ||
	    prctl(PR_SET_MM, PR_SET_MM_ARG_END, a + sizeof(title), 0, 0))
		fail("PR_SET_MM");
	fd = open("/proc/self/cmdline", O_RDONLY);
	if (fd < 0 || read(fd, read_back, sizeof(read_back) - 1) < 0)
		fail("/proc/self/cmdline");
	return strcmp(read_back, title);
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static void test_locked(void)
{
	const size_t size = 64 * page_size;
	char *a = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long before;

	if (a == MAP_FAILED || mlock(a, size) || mprotect(a, size, PROT_READ | PROT_WRITE))
		fail("locked, then writable");
	before = faults();
	fill(a, size, 5);
	test_result(faults() - before < 32, "locked memory that becomes writable faults no more");
	munmap(a, size);
}

static void test_futex(void)
{
	char *a = map_private(page_size, 0);

	fill(a, page_size, 6);
	if (mprotect(a, page_size, PROT_READ))
		fail("mprotect");
	errno = 0;
	test_result(refused(syscall(SYS_futex, a, FUTEX_WAIT, 1, NULL, NULL, 0), EFAULT),
		    "futex() of read-only memory: EFAULT");
	munmap(a, page_size);
}

/* A disk on which whoever writes waits for as long as it is frozen, and cannot be killed. */
static int disk_frozen(void)
{
	int fd;

	if (system("mkfs.xfs -q -f /dev/ram0 >/dev/null 2>&1 && mkdir -p " DISK
		   " && mount -t xfs /dev/ram0 " DISK))
		return -1;
	fd = open(DISK, O_RDONLY | O_DIRECTORY);
	return fd >= 0 && !ioctl(fd, FIFREEZE, 0) ? fd : -1;
}

static long resident(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return proc_kb(path, NULL, "VmRSS");
}

/* What the OOM reaper does, asked for by process_mrelease(2) */
static void test_reaper(void)
{
	int disk = disk_frozen(), ready[2], pidfd, tries, status;
	long before, after = -1;
	bool released = false;
	pid_t pid;
	char c;

	if (disk < 0 || pipe(ready)) {
		test_skip("the OOM reaper: no disk that can be frozen");
		return;
	}
	pid = fork();
	if (!pid) {
		char *a = map_private(LARGE, 0);

		fill(a, LARGE, 7);
		if (write(ready[1], "", 1) != 1)
			fail("pipe");
		open(DISK "/file", O_RDWR | O_CREAT, 0600);
		_exit(0);
	}
	await_char(ready[0], &c);
	usleep(500000);
	before = resident(pid);
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	kill(pid, SIGKILL);
	for (tries = 0; tries < 50 && !released; tries++) {
		released = !syscall(SYS_process_mrelease, pidfd, 0);
		usleep(released ? 0 : 100000);
	}
	after = resident(pid);
	test_result(released && before > 0 && after >= 0 && after <= before / 4,
		    "the OOM reaper takes memory of who does not end: %ld of %ld KB left", after,
		    before);
	if (ioctl(disk, FITHAW, 0))
		fail("FITHAW");
	waitpid(pid, &status, 0);
	test_result(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "which ends then");
	close(disk);
	umount(DISK);
}

static void test_sealed(void)
{
	const int status = in_child(child_seals, NULL);

	if (status == 4)
		test_skip("no mseal()");
	else
		test_result(!status, "what is sealed read-only is not discarded");
}

int main(void)
{
	lab_init();
	test_result(!*default_mount() == !is_managed(map_private(page_size, 0)),
		    "memory is a file's where it should be");
	test_remove();
	test_map_files();
	test_result(!in_child(child_mincore, NULL), "mincore() of who has changed its user");
	test_sealed();
	test_result(!in_child(child_renames, NULL), "/proc/PID/cmdline reads it");
	test_locked();
	test_futex();
	test_reaper();
	return test_end();
}
