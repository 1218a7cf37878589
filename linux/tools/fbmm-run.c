// SPDX-License-Identifier: GPL-2.0
/*
 * Run a program with a memory file system as the default one.
 *
 * Usage: fbmm-run DIRECTORY PROGRAM [ARGUMENT...]
 *
 * DIRECTORY is in a mounted memory file system; an empty one stands for the
 * kernel's own memory management. The program's children have it, too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SETTING "/proc/self/fbmm_mount_dir"

static const char *reason(void)
{
	switch (errno) {
	case EOPNOTSUPP:
		return "file-based memory management is off: boot with fbmm=on, or write 1 to /sys/kernel/mm/fbmm/enabled";
	case EINVAL:
		return "this is no memory file system";
	default:
		return strerror(errno);
	}
}

int main(int argc, char **argv)
{
	int fd;

	if (argc < 3) {
		fprintf(stderr, "usage: fbmm-run DIRECTORY PROGRAM [ARGUMENT...]\n");
		return 125;
	}
	fd = open(SETTING, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "fbmm-run: " SETTING ": %s\n",
			errno == ENOENT ? "this kernel has no CONFIG_FBMM" : strerror(errno));
		return 125;
	}
	/* An empty write would not reach the kernel's file. */
	if (write(fd, *argv[1] ? argv[1] : "\n", *argv[1] ? strlen(argv[1]) : 1) < 0) {
		fprintf(stderr, "fbmm-run: %s: %s\n", argv[1], reason());
		return 125;
	}
	execvp(argv[2], argv + 2);
	fprintf(stderr, "fbmm-run: %s: %s\n", argv[2], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}
