// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin: every block of code that a guest's CPUs execute between two marks of
 * between-marks.c, every access, and every page walk. For the emulator of linux/qemu,
 * which has qemu_plugin_report_walks(); crates/guest reads what this writes. Several CPUs
 * must take turns (-accel tcg,thread=single).
 *
 *	system,out=PATH
 *
 * Words of 64 bits, little endian, after eight bytes "pglsys2\n". Bits of a record's
 * first word:
 *
 *	0-2	0: an access, of an instruction of the block entered last; its address follows
 *		1: a walk; address, CR3, physical address and the entries read follow,
 *		   each with its address and its value
 *		2: the end; instructions of programs and of the kernel follow
 *		3: a block of code; its address follows, then the length of each
 *		   instruction, a byte each, and the instructions, padded to whole words
 *		4: a block is entered; 0 follows
 *		5: a mark in a program, between which it measures; 0 follows
 *		6: another CPU goes on; 0 follows. CPU 0 begins
 *	3	of an access: it is a store
 *	3-4	of a walk, 0: for a load, 1: for a store, 2: for an instruction
 *	5-12	of an access: log2 of its size
 *		of a walk: how many entries were read
 *	13-20	of a walk: log2 of the page's size, 0 if it ended in a fault
 *	21	of a walk: by hash; then the registers that hold the space's id and the
 *		number of frames count as the first two entries, lines of metadata, each
 *		with the word that was looked for or its head, as the next ones, and
 *		before the entry itself its level and the metadata that led to it
 *	16-31	of a block of code: its instructions
 *		of an access: which of the block's makes it
 *	32-63	of a block: its number; they are numbered from 0 as they are translated
 *		of a CPU: its number
 *
 * Before between-marks.c's first mark nothing is reported, so that the guest boots as
 * fast as usual.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is used of GLib, which QEMU has */
typedef struct {
	char *data;
	unsigned int len;
} GArray;
typedef struct {
	uint8_t *data;
	unsigned int len;
} GByteArray;
GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *array, unsigned int length);

/* What is used of QEMU's interface, version 4 (QEMU 9.2 and 10.0) */
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;
typedef struct {
	const char *target_name;
	struct { int min, cur; } version;
	bool system_emulation;
	struct { int smp_vcpus, max_vcpus; } system;
} qemu_info_t;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest, size_t len);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn,
		enum qemu_plugin_op op, qemu_plugin_u64 counter, uint64_t add);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
		void (*cb)(unsigned int cpu, void *data),
		enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
		void (*cb)(unsigned int cpu, qemu_plugin_meminfo_t info,
			   uint64_t vaddr, void *data),
		enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw, void *data);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
		void (*cb)(unsigned int cpu, void *data),
		enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
		void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_reset(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t id));
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned int cpu);

struct qemu_plugin_register;
typedef struct {
	struct qemu_plugin_register *handle;
	const char *name, *feature;
} qemu_plugin_reg_descriptor;
GArray *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(struct qemu_plugin_register *handle, GByteArray *buf);

/* And what linux/qemu/patches add to it */
typedef struct {
	uint64_t entry, value;
} qemu_plugin_walk_read;
typedef struct {
	uint64_t vaddr, root, paddr, page_size;
	uint32_t access, by_hash, n_reads;
	const qemu_plugin_walk_read *reads;
} qemu_plugin_walk;
void qemu_plugin_report_walks(void (*cb)(unsigned int cpu, const qemu_plugin_walk *walk));

__attribute__((visibility("default"))) int qemu_plugin_version = 4;

enum kind { ACCESS, WALK, END, CODE, ENTERED, MARK, GOES_ON };
enum { OF_PROGRAMS, OF_KERNEL, SIDES };

static qemu_plugin_id_t self;
static struct qemu_plugin_scoreboard *board;
/* Instructions since the first mark: the only element of `board`, or of several CPUs. */
static uint64_t *executed, of_several[SIDES];
static uint64_t blocks;
/* How many CPUs there are, which runs, and the address of each one's own data. */
static unsigned int cpus, on;
#define MOST_CPUS	64
static uint64_t own[MOST_CPUS];
static struct qemu_plugin_register *gs_base, *kernel_gs_base;
static bool asked, recording;
static FILE *out;

static void put(const uint64_t *words, size_t count)
{
	/* A recording with a hole would be taken for a whole one. */
	if (fwrite(words, sizeof(*words), count, out) != count) {
		perror("system: cannot write");
		exit(1);
	}
}

static uint64_t read_register(struct qemu_plugin_register *which)
{
	static GByteArray *bytes;
	uint64_t value = 0;

	if (!bytes)
		bytes = g_byte_array_new();
	g_byte_array_set_size(bytes, 0);
	if (qemu_plugin_read_register(which, bytes) == sizeof(value))
		memcpy(&value, bytes->data, sizeof(value));
	return value;
}

static void find_registers(void)
{
	GArray *all = qemu_plugin_get_registers();
	unsigned int i;

	for (i = 0; i < all->len; i++) {
		const qemu_plugin_reg_descriptor *one =
			(qemu_plugin_reg_descriptor *)all->data + i;

		if (!strcmp(one->name, "gs_base"))
			gs_base = one->handle;
		if (!strcmp(one->name, "k_gs_base"))
			kernel_gs_base = one->handle;
	}
}

/*
 * Which CPU runs, numbered as they are met. QEMU 10.0 tells callbacks the number of the
 * one that translated the code where CPUs take turns (gen_cpu_index() in
 * accel/tcg/plugin-gen.c). Linux has the address of a CPU's own data in one of the bases
 * of GS, and a program's is in the lower half.
 */
static unsigned int which_cpu(void)
{
	uint64_t base;
	unsigned int cpu;

	if (cpus == 1)
		return 0;
	if (!gs_base)
		find_registers();
	base = read_register(gs_base);
	if (!(base >> 63))
		base = read_register(kernel_gs_base);
	for (cpu = 0; cpu < cpus - 1 && own[cpu] && own[cpu] != base; cpu++)
		;
	own[cpu] = base;
	return cpu;
}

/* Tells when another CPU goes on. It does so between two blocks. */
static void look_who_runs(void)
{
	const unsigned int cpu = which_cpu();
	const uint64_t words[] = { GOES_ON | (uint64_t)cpu << 32, 0 };

	if (cpu != on) {
		on = cpu;
		put(words, 2);
	}
}

static void on_block(unsigned int cpu, void *number)
{
	const uint64_t words[] = { ENTERED | (uint64_t)(uintptr_t)number << 32, 0 };

	(void)cpu;
	if (!recording)
		return;
	look_who_runs();
	put(words, 2);
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
		      void *instruction)
{
	const uint64_t words[] = {
		ACCESS | (uint64_t)qemu_plugin_mem_is_store(info) << 3 |
			(uint64_t)qemu_plugin_mem_size_shift(info) << 5 |
			(uint64_t)(uintptr_t)instruction << 16,
		vaddr,
	};

	(void)cpu;
	if (recording)
		put(words, 2);
}

/* An inline counter is one a CPU, by the number that is wrong. */
static void count_one(unsigned int cpu, void *counter)
{
	(void)cpu;
	++*(uint64_t *)counter;
}

/* The program's own marks, which count.c counts between as well. */
static void on_mark(unsigned int cpu, void *data)
{
	const uint64_t words[] = { MARK, 0 };

	(void)cpu;
	(void)data;
	if (recording)
		put(words, 2);
}

static void on_walk(unsigned int cpu, const qemu_plugin_walk *walk)
{
	const unsigned int shift = walk->page_size ? __builtin_ctzll(walk->page_size) : 0;
	const uint64_t words[] = {
		WALK | walk->access << 3 | walk->n_reads << 5 | shift << 13 |
			walk->by_hash << 21,
		walk->vaddr, walk->root, walk->paddr,
	};

	(void)cpu;
	if (!recording)
		return;
	look_who_runs();
	put(words, 4);
	put(&walk->reads->entry, 2 * walk->n_reads);
}

static void on_end(unsigned int cpu, void *data)
{
	const uint64_t words[] = { END, executed[OF_PROGRAMS], executed[OF_KERNEL] };

	(void)cpu;
	(void)data;
	if (!recording)
		return;
	put(words, 3);
	fflush(out);
	recording = false;
	qemu_plugin_report_walks(NULL);
}

/*
 * nopl of 0x07a61ab1 (begin) or 0x07a61ab2 (end) past %rax (plugin.h); 0x07a61ab3 and
 * 0x07a61ab4 are between-marks.c's own.
 */
enum mark { BEGIN = 0xb1, ENDS, RECORD, STOP };

static bool is_mark(const struct qemu_plugin_insn *insn, enum mark which)
{
	const uint8_t mark[] = { 0x0f, 0x1f, 0x80, which, 0x1a, 0xa6, 0x07 };
	uint8_t code[sizeof(mark)];

	return qemu_plugin_insn_data(insn, code, sizeof(code)) == sizeof(code) &&
	       !memcmp(code, mark, sizeof(mark));
}

/* QEMU translates at most so many instructions at a time, each of at most 15 bytes. */
#define MOST	512

static void put_code(const struct qemu_plugin_tb *tb, size_t count)
{
	static uint8_t bytes[MOST * 16 + 8] __attribute__((aligned(8)));
	const uint64_t pc = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
	const uint64_t words[] = { CODE | count << 16 | blocks << 32, pc };
	size_t used = count, i;

	for (i = 0; i < count; i++) {
		const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const size_t size = qemu_plugin_insn_size(insn);

		bytes[i] = size;
		used += qemu_plugin_insn_data(insn, bytes + used, size);
	}
	memset(bytes + used, 0, 8);
	put(words, 2);
	put((const uint64_t *)bytes, (used + 7) / 8);
}

static void report(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	const size_t count = qemu_plugin_tb_n_insns(tb);
	size_t i;

	(void)id;
	if (count > MOST || blocks > UINT32_MAX) {
		fprintf(stderr, "system: more code than there are numbers for\n");
		exit(1);
	}
	put_code(tb, count);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block,
		cpus == 1 ? QEMU_PLUGIN_CB_NO_REGS : QEMU_PLUGIN_CB_R_REGS,
		(void *)(uintptr_t)blocks++);
	for (i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const int side = qemu_plugin_insn_vaddr(insn) >> 63 ? OF_KERNEL : OF_PROGRAMS;
		const qemu_plugin_u64 counter = { board, side * sizeof(uint64_t) };

		if (cpus == 1)
			qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn,
				QEMU_PLUGIN_INLINE_ADD_U64, counter, 1);
		else
			qemu_plugin_register_vcpu_insn_exec_cb(insn, count_one,
				QEMU_PLUGIN_CB_NO_REGS, &of_several[side]);
		qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
			QEMU_PLUGIN_MEM_RW, (void *)(uintptr_t)i);
		if (is_mark(insn, BEGIN) || is_mark(insn, ENDS))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark,
				QEMU_PLUGIN_CB_NO_REGS, NULL);
		if (is_mark(insn, STOP))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_end,
				QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

/* All translations are gone, and no CPU runs. */
static void begin(qemu_plugin_id_t id)
{
	executed = cpus == 1 ? qemu_plugin_scoreboard_find(board, 0) : of_several;
	recording = true;
	qemu_plugin_report_walks(on_walk);
	qemu_plugin_register_vcpu_tb_trans_cb(id, report);
}

static void on_begin(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	if (asked)
		return;
	asked = true;
	qemu_plugin_reset(self, begin);
}

static void look_for_begin(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	const size_t count = qemu_plugin_tb_n_insns(tb);
	size_t i;

	(void)id;
	for (i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (is_mark(insn, RECORD))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_begin,
				QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	cpus = info->system.max_vcpus;
	if (cpus > MOST_CPUS) {
		fprintf(stderr, "system: a guest of at most %d CPUs is needed\n", MOST_CPUS);
		return 1;
	}
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "system: expected out=PATH\n");
		return 1;
	}
	out = fopen(argv[0] + 4, "w");
	if (!out) {
		perror(argv[0] + 4);
		return 1;
	}
	setvbuf(out, NULL, _IOFBF, 1 << 20);
	fputs("pglsys2\n", out);
	self = id;
	board = qemu_plugin_scoreboard_new(SIDES * sizeof(uint64_t));
	qemu_plugin_register_vcpu_tb_trans_cb(id, look_for_begin);
	return 0;
}
