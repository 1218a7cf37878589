// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin: on which of two NUMA nodes the memory lies that a guest's programs
 * read and write between two marks.
 *
 *	nodes,out=PATH,boundary=ADDRESS[,cache=KB][,from=ADDRESS][,least=PAGES]
 *
 * What lies at or above the boundary is node 1's. A cache of that size, 16 ways and
 * lines of 64 bytes, stands for a processor's last level: what it has is counted
 * apart. Only instructions at or above `from`, and not the kernel's, count.
 *
 * Writes a line "LOADS0 LOADS1 STORES0 STORES1 MISSES0 MISSES1" for every pair of
 * marks: loads and stores by node, and loads that miss the cache, which is what
 * processors count. For guests of one CPU.
 *
 * With least, " REST LEAST" follows: of the loads that miss the cache, how many go to the
 * PAGES pages that most of them go to, and to all others. No placement of so many pages
 * on node 0 that stays as it is between the marks has fewer remote. Pages are told apart
 * by their virtual addresses, so only one program may count.
 */
#include <stdio.h>
#include <stdlib.h>

#include "plugin.h"

#define WAYS		16
#define LINE_BITS	6
#define KERNEL		(1ull << 63)
#define PAGE_BITS	12
#define SLOTS		(1u << 20)	/* for so many pages, and more than there are */

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { LOAD, STORE, MISS, NR_COUNTS };

static uint64_t counts[NR_COUNTS][2];
static bool counting;
static uint64_t boundary, from;
static uint64_t (*sets)[WAYS];	/* of lines, the most recently used first; 0 is none */
static uint64_t nr_sets;
static struct { uint64_t page, misses; } *slots;	/* open addressing; page 0 is none */
static uint64_t *sorted;
static uint64_t least;
static FILE *out;

static void on_begin(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	memset(counts, 0, sizeof(counts));
	if (least)
		memset(slots, 0, SLOTS * sizeof(*slots));
	counting = true;
}

static void count_page(uint64_t vaddr)
{
	const uint64_t page = (vaddr >> PAGE_BITS) + 1;
	uint32_t slot = page * 0x9e3779b97f4a7c15ull >> 44;
	uint32_t tries = 0;

	for (; slots[slot].page && slots[slot].page != page; slot = (slot + 1) % SLOTS) {
		if (++tries == SLOTS) {
			fprintf(stderr, "nodes: more than %u pages\n", SLOTS);
			exit(1);
		}
	}
	slots[slot].page = page;
	slots[slot].misses++;
}

static int more_first(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

/* How many misses no placement can have local. */
static uint64_t least_remote(void)
{
	uint64_t nr = 0, remote = 0, i;

	for (i = 0; i < SLOTS; i++)
		if (slots[i].page)
			sorted[nr++] = slots[i].misses;
	qsort(sorted, nr, sizeof(*sorted), more_first);
	for (i = least; i < nr; i++)
		remote += sorted[i];
	return remote;
}

static void on_end(unsigned int cpu, void *data)
{
	int i;

	(void)cpu;
	(void)data;
	counting = false;
	for (i = 0; i < NR_COUNTS; i++)
		fprintf(out, "%lu %lu%s", (unsigned long)counts[i][0],
			(unsigned long)counts[i][1], i + 1 < NR_COUNTS ? " " : "");
	if (least) {
		const uint64_t remote = least_remote();

		fprintf(out, " %lu %lu",
			(unsigned long)(counts[MISS][0] + counts[MISS][1] - remote),
			(unsigned long)remote);
	}
	fputc('\n', out);
	fflush(out);
}

/* Whether the cache has the line; afterwards it has. */
static bool in_cache(uint64_t address)
{
	const uint64_t line = (address >> LINE_BITS) + 1;
	uint64_t *set = sets[line % nr_sets];
	int way;

	for (way = 0; way < WAYS - 1 && set[way] != line; way++)
		;
	if (set[way] == line) {
		memmove(set + 1, set, way * sizeof(*set));
		set[0] = line;
		return true;
	}
	memmove(set + 1, set, (WAYS - 1) * sizeof(*set));
	set[0] = line;
	return false;
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
		      void *data)
{
	const struct qemu_plugin_hwaddr *hwaddr;
	const bool store = qemu_plugin_mem_is_store(info);
	uint64_t address;
	bool node, hit;

	(void)cpu;
	(void)data;
	if (!counting)
		return;
	hwaddr = qemu_plugin_get_hwaddr(info, vaddr);
	if (!hwaddr || qemu_plugin_hwaddr_is_io(hwaddr))
		return;
	/*
	 * QEMU before 8.2 adds the place of a memory backend in the machine to that
	 * among all memory: the second one's addresses are too high, but not mixed
	 * up with the first's or each other's.
	 */
	address = qemu_plugin_hwaddr_phys_addr(hwaddr);
	node = address >= boundary;
	hit = nr_sets && in_cache(address);
	counts[store ? STORE : LOAD][node]++;
	if (!store && !hit) {
		counts[MISS][node]++;
		if (least)
			count_page(vaddr);
	}
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i;

	(void)id;
	for (i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint64_t pc = qemu_plugin_insn_vaddr(insn);

		call_at_mark(insn, on_begin, on_end);
		if (pc >= from && pc < KERNEL)
			qemu_plugin_register_vcpu_mem_cb(insn, on_access,
				QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
	}
}

static bool read_option(const char *option)
{
	const char *value = strchr(option, '=');
	const size_t name = value ? (size_t)(value - option) : 0;
	char *end = NULL;
	uint64_t number;

	if (name == 3 && !strncmp(option, "out", name)) {
		out = fopen(value + 1, "w");
		if (!out)
			perror(value + 1);
		return out;
	}
	number = value ? strtoull(value + 1, &end, 0) : 0;
	if (!end || *end || end == value + 1)
		return false;
	if (name == 8 && !strncmp(option, "boundary", name))
		boundary = number;
	else if (name == 5 && !strncmp(option, "cache", name))
		nr_sets = (number << 10 >> LINE_BITS) / WAYS;
	else if (name == 4 && !strncmp(option, "from", name))
		from = number;
	else if (name == 5 && !strncmp(option, "least", name))
		least = number;
	else
		return false;
	return true;
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	int i;

	(void)info;
	for (i = 0; i < argc; i++) {
		if (!read_option(argv[i])) {
			fprintf(stderr, "nodes: bad option %s\n", argv[i]);
			return 1;
		}
	}
	if (!out || !boundary) {
		fprintf(stderr, "nodes: expected out=PATH and boundary=ADDRESS\n");
		return 1;
	}
	sets = calloc(nr_sets, sizeof(*sets));
	slots = calloc(least ? SLOTS : 1, sizeof(*slots));
	sorted = calloc(least ? SLOTS : 1, sizeof(*sorted));
	if ((nr_sets && !sets) || !slots || !sorted) {
		perror("nodes");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	return 0;
}
