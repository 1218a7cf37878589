// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of two nodes, each with data that are bound to it. Tables of programs
 * that run on either node go where the hash says, which is on either; data that
 * are in the way are moved, and must stay on their node while that has room.
 */
#include "lab.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>

#define NODES 2
#define ROOM_KB (96ul << 10)	/* that is left on each node */
#define CHILDREN 8
#define TABLES 160		/* of each child, and so many pages */

struct data {
	char *memory;
	size_t pages;
	uint64_t *frames;	/* where they were at first */
};

static unsigned long free_kb(int node)
{
	char path[64], name[32];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
	snprintf(name, sizeof(name), "Node %d MemFree", node);
	return proc_kb(path, NULL, name);
}

/* All of a node's memory but the room, in small pages. */
static struct data use(int node)
{
	const unsigned long mask = 1ul << node;
	const unsigned long available = free_kb(node);
	struct data data;
	size_t i;

	if (available <= ROOM_KB) {
		errno = ENOMEM;
		fail("less memory than is to be left");
	}
	data.pages = (available - ROOM_KB) * 1024 / page_size;
	data.memory = map_private(data.pages * page_size, MAP_NORESERVE);
	data.frames = calloc(data.pages, sizeof(*data.frames));
	if (!data.frames)
		fail("calloc");
	madvise(data.memory, data.pages * page_size, MADV_NOHUGEPAGE);
	if (syscall(SYS_mbind, data.memory, data.pages * page_size, MPOL_BIND, &mask,
		    8 * sizeof(mask), 0))
		fail("mbind");
	for (i = 0; i < data.pages; i++)
		*(size_t *)(data.memory + i * page_size) = i * NODES + node;
	for (i = 0; i < data.pages; i++)
		data.frames[i] = page_frame(data.memory + i * page_size);
	return data;
}

/* The node that a page is on. One that is just being moved is on none. */
static int node_of(const char *page)
{
	int node;

	do {
		*(const volatile char *)page;
		if (syscall(SYS_move_pages, 0, 1, &page, NULL, &node, 0))
			fail("move_pages");
	} while (node == -ENOENT);
	return node;
}

static int make_tables(void *processor)
{
	char *memory = map_private(TABLES * REGION, MAP_NORESERVE);
	cpu_set_t set;
	int i;

	CPU_ZERO(&set);
	CPU_SET((long)processor, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
	madvise(memory, TABLES * REGION, MADV_NOHUGEPAGE);
	for (i = 0; i < TABLES; i++)
		fill(memory + i * REGION, page_size, i);
	for (i = 0; i < TABLES; i++)
		if (!filled(memory + i * REGION, page_size, i))
			return 1;
	return 0;
}

static void compare(const struct data *data, int node)
{
	unsigned long moved = 0, elsewhere = 0;
	bool same = true;
	size_t i;

	for (i = 0; i < data->pages; i++) {
		const char *page = data->memory + i * page_size;

		if (page_frame(page) == data->frames[i])
			continue;
		moved++;
		elsewhere += node_of(page) != node;
	}
	for (i = 0; i < data->pages; i++)
		same = same && *(size_t *)(data->memory + i * page_size) == i * NODES + node;
	test_result(moved >= 10, "node %d: %lu of %zu pages were moved", node, moved,
		    data->pages);
	test_result(!elsewhere, "node %d: %lu of these went to another", node, elsewhere);
	test_result(same, "node %d: what they hold is the same", node);
}

int main(void)
{
	unsigned long moves, failed;
	struct data data[NODES];
	int node, i, wrong = 0;

	if (access(STATS, R_OK) || access("/sys/devices/system/node/node1", F_OK)) {
		printf("ok 1 # SKIP not with dpt=on and two nodes\n");
		return KSFT_SKIP;
	}
	lab_init();
	for (node = 0; node < NODES; node++)
		data[node] = use(node);
	moves = counter("cpd_moves");
	failed = counter("cpd_failed");
	for (i = 0; i < CHILDREN; i++)
		wrong += !!in_child(make_tables, (void *)(long)(i % NODES));
	printf("# %lu data moved, %lu not; %lu and %lu kB are free\n",
	       counter("cpd_moves") - moves, counter("cpd_failed") - failed, free_kb(0),
	       free_kb(1));
	test_result(!wrong, "programs on both nodes: %d of %d failed", wrong, CHILDREN);
	for (node = 0; node < NODES; node++)
		compare(&data[node], node);
	return test_end();
}
