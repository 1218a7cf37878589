/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of memory file systems have in common. */
#ifndef _FBMM_LAB_H
#define _FBMM_LAB_H

#include "../foliomap/lab.h"

#include <signal.h>
#include <sys/wait.h>

#define FBMM_SYSFS "/sys/kernel/mm/fbmm/"

static inline unsigned long read_number(const char *path)
{
	unsigned long value = 0;
	FILE *file = fopen(path, "r");

	if (!file || fscanf(file, "%lu", &value) != 1)
		fail(path);
	fclose(file);
	return value;
}

#define FBMM_SETTING "/proc/self/fbmm_mount_dir"

/* Where the memory file system is mounted that memory comes from; "" without one. */
static inline const char *default_mount(void)
{
	static char dir[256];
	FILE *file = fopen(FBMM_SETTING, "r");

	if (file && fgets(dir, sizeof(dir), file))
		dir[strcspn(dir, "\n")] = 0;
	if (file)
		fclose(file);
	return dir;
}

/* A field of /proc/self/status or of a mapping in /proc/self/smaps, in KB. */
static inline long proc_kb(const char *path, const void *addr, const char *name)
{
	unsigned long start, end;
	bool here = !addr;
	char line[512];
	long value = -1;
	FILE *file = fopen(path, "r");

	if (!file)
		fail(path);
	while (value < 0 && fgets(line, sizeof(line), file)) {
		if (addr && sscanf(line, "%lx-%lx ", &start, &end) == 2 &&
		    strchr(line, '-') < strchr(line, ' '))
			here = (uintptr_t)addr >= start && (uintptr_t)addr < end;
		else if (here && !strncmp(line, name, strlen(name)) &&
			 line[strlen(name)] == ':')
			value = strtol(line + strlen(name) + 1, NULL, 10);
	}
	fclose(file);
	return value;
}

/* Whether the memory is a memory file's. */
static inline bool is_managed(const void *addr)
{
	unsigned long start, end;
	bool managed = false;
	char line[512];
	FILE *file = fopen("/proc/self/maps", "r");

	if (!file)
		fail("/proc/self/maps");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2 &&
		    (uintptr_t)addr >= start && (uintptr_t)addr < end)
			managed = strstr(line, "(deleted)");
	fclose(file);
	return managed;
}

static inline char *map_private(size_t size, int flags)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

/* A pattern that differs from page to page. */
static inline void fill(char *memory, size_t size, unsigned int seed)
{
	size_t at;

	for (at = 0; at < size; at += sizeof(uint32_t))
		*(uint32_t *)(memory + at) = seed + at * 2654435761u;
}

static inline bool filled(const char *memory, size_t size, unsigned int seed)
{
	size_t at;

	for (at = 0; at < size; at += sizeof(uint32_t))
		if (*(const uint32_t *)(memory + at) != (uint32_t)(seed + at * 2654435761u))
			return false;
	return true;
}

static inline bool zero(const char *memory, size_t size)
{
	size_t at;

	for (at = 0; at < size; at++)
		if (memory[at])
			return false;
	return true;
}

/* Exit status of a child that runs a function; 256 and more if it was killed. */
static inline int in_child(int (*run)(void *), void *arg)
{
	const pid_t pid = fork();
	int status;

	if (pid < 0)
		fail("fork");
	if (!pid)
		_exit(run(arg));
	if (waitpid(pid, &status, 0) != pid)
		fail("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

#endif /* _FBMM_LAB_H */
