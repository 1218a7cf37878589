// SPDX-License-Identifier: GPL-2.0
/*
 * Private anonymous memory that is a file of a memory file system: who may choose
 * one, and that memory is as it is without.
 *
 * Usage: fbmm [MOUNT]: a mount of a memory file system; else the one that the
 * process has already, or none, when only the choice is tested.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"
#include "vm_util.h"

#define ENABLED		"/sys/kernel/mm/fbmm/enabled"
#define MMAPS		"/sys/kernel/mm/fbmm/mmaps"
#define MOUNT_DIR	"/proc/self/fbmm_mount_dir"
#define SIZE		(4ul << 20)

/* Returns 0 or the error. */
static int put(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY);
	int err = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		err = errno;
	close(fd);
	return err;
}

static char *map(void)
{
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	return memory;
}

static bool all_are(const char *memory, char value)
{
	size_t at;

	for (at = 0; at < SIZE; at += 512)
		if (memory[at] != value)
			return false;
	return true;
}

/* Permissions and name of the mapping that has an address */
static bool shown(const char *memory, char *perms, char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[4096];
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		name[0] = 0;
		found = sscanf(line, "%lx-%lx %4s %*s %*s %*s %255[^\n]", &start, &end, perms,
			       name) >= 3 &&
			start <= (unsigned long)memory && (unsigned long)memory < end;
	}
	if (maps)
		fclose(maps);
	return found;
}

static void test_choice(void)
{
	char dir[4096] = "";

	ksft_test_result(!put(ENABLED, "0") && put(MOUNT_DIR, "/") == EOPNOTSUPP,
			 "nobody chooses while it is off\n");
	ksft_test_result(!put(ENABLED, "1") && put(MOUNT_DIR, "/proc") == EINVAL,
			 "/proc is no memory file system\n");
	ksft_test_result(!access(MOUNT_DIR, W_OK) && put(MOUNT_DIR, "/nowhere") == ENOENT,
			 "nor is what is not there\n");
	ksft_test_result(!put(MOUNT_DIR, "\n") && !read_file(MOUNT_DIR, dir, sizeof(dir)),
			 "the kernel can be chosen\n");
}

/* A child sees what was written before, and neither what the other writes later. */
static bool forked(char *memory)
{
	int go[2], status;
	pid_t child;
	char c = 0;

	memset(memory, 1, SIZE);
	if (pipe(go))
		ksft_exit_fail_perror("pipe");
	child = fork();
	if (child < 0)
		ksft_exit_fail_perror("fork");
	if (!child) {
		if (read(go[0], &c, 1) != 1 || !all_are(memory, 1))
			_exit(1);
		memset(memory, 3, SIZE);
		_exit(!all_are(memory, 3));
	}
	memset(memory, 2, SIZE);
	if (write(go[1], &c, 1) != 1 || waitpid(child, &status, 0) != child)
		ksft_exit_fail_perror("the child");
	close(go[0]);
	close(go[1]);
	return !status && all_are(memory, 2);
}

static void test_memory(const char *mount)
{
	const unsigned long before = read_num(MMAPS);
	char perms[8] = "", name[256] = "", dir[4096] = "";
	char *memory, *moved;

	ksft_test_result(!put(MOUNT_DIR, mount) && read_file(MOUNT_DIR, dir, sizeof(dir)) > 0 &&
			 !strncmp(dir, mount, strlen(mount)), "a mount is chosen\n");
	memory = map();
	ksft_test_result(read_num(MMAPS) > before && shown(memory, perms, name) && name[0],
			 "private anonymous memory is a file's: %s\n", name);
	ksft_test_result(!strcmp(perms, "rw-p"), "and is shown as private: %s\n", perms);
	ksft_test_result(all_are(memory, 0), "it is zero at first\n");
	ksft_test_result(forked(memory), "after fork() each has its own\n");
	ksft_test_result(madvise(memory, SIZE, MADV_REMOVE) && errno == EINVAL &&
			 all_are(memory, 2), "MADV_REMOVE is refused\n");
	moved = mremap(memory, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, map());
	ksft_test_result(moved != MAP_FAILED && all_are(moved, 2), "mremap() moves it\n");
	ksft_test_result(!madvise(moved, SIZE, MADV_DONTNEED) && all_are(moved, 0),
			 "MADV_DONTNEED discards it\n");
	memset(moved, 4, SIZE);
	munmap(moved, SIZE);
	memory = mmap(moved, SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	ksft_test_result(memory == moved && all_are(memory, 0),
			 "what is unmapped is gone\n");
	munmap(memory, SIZE);
	put(MOUNT_DIR, "\n");
	memory = map();
	ksft_test_result(shown(memory, perms, name) && !name[0],
			 "without a mount memory is the kernel's again\n");
}

int main(int argc, char **argv)
{
	char mount[4096] = "";

	ksft_print_header();
	if (geteuid())
		ksft_exit_skip("needs root\n");
	if (argc > 1)
		snprintf(mount, sizeof(mount), "%s", argv[1]);
	else if (read_file(MOUNT_DIR, mount, sizeof(mount)) > 0)
		mount[strcspn(mount, "\n")] = 0;
	ksft_set_plan(4 + (mount[0] ? 10 : 0));
	test_choice();
	if (mount[0])
		test_memory(mount);
	ksft_finished();
}
