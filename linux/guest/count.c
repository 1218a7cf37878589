// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin: how many instructions, and how many atomic ones, a guest executes
 * between two marks in a program.
 *
 * Writes a line "INSTRUCTIONS ATOMICS" for every pair of marks to the file given
 * as out=PATH: those of all CPUs, whichever passes the marks.
 */
#include <stdio.h>

#include "plugin.h"

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

#define MAX_CPUS	64

struct counts {
	uint64_t instructions, atomics;
} __attribute__((aligned(64)));		/* a cache line each: CPUs run in threads */

static struct counts counts[MAX_CPUS], then;
static int nr_cpus;
static FILE *out;

static struct counts sum(void)
{
	struct counts total = { 0 };
	int cpu;

	for (cpu = 0; cpu < nr_cpus; cpu++) {
		total.instructions += counts[cpu].instructions;
		total.atomics += counts[cpu].atomics;
	}
	return total;
}

static void on_begin(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	then = sum();
}

static void on_end(unsigned int cpu, void *data)
{
	const struct counts now = sum();

	(void)cpu;
	(void)data;
	fprintf(out, "%lu %lu\n", (unsigned long)(now.instructions - then.instructions),
		(unsigned long)(now.atomics - then.atomics));
	fflush(out);
}

static void on_instruction(unsigned int cpu, void *is_atomic)
{
	counts[cpu].instructions++;
	counts[cpu].atomics += is_atomic != NULL;
}

/* A lock prefix, or an exchange with memory, which needs none. */
static bool is_atomic(const uint8_t *code, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++) {
		if (code[i] == 0xf0)
			return true;
		if (!memchr("\x66\x67\xf2\xf3\x2e\x36\x3e\x26\x64\x65", code[i], 10) &&
		    (code[i] & 0xf0) != 0x40)
			break;
	}
	return i + 1 < size && (code[i] & 0xfe) == 0x86 && code[i + 1] < 0xc0;
}

/* An inline addition is several times faster than a call, but is told no CPU. */
static void count(struct qemu_plugin_insn *insn, bool atomic)
{
	if (nr_cpus > 1) {
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_instruction,
			QEMU_PLUGIN_CB_NO_REGS, atomic ? counts : NULL);
		return;
	}
	qemu_plugin_register_vcpu_insn_exec_inline(insn,
		QEMU_PLUGIN_INLINE_ADD_U64, &counts[0].instructions, 1);
	if (atomic)
		qemu_plugin_register_vcpu_insn_exec_inline(insn,
			QEMU_PLUGIN_INLINE_ADD_U64, &counts[0].atomics, 1);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i;

	(void)id;
	for (i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *code = qemu_plugin_insn_data(insn);
		const size_t size = qemu_plugin_insn_size(insn);

		count(insn, is_atomic(code, size));
		call_at_mark(insn, on_begin, on_end);
	}
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	nr_cpus = info->system.max_vcpus;
	if (nr_cpus > MAX_CPUS) {
		fprintf(stderr, "count: more than %d CPUs\n", MAX_CPUS);
		return 1;
	}
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "count: expected out=PATH\n");
		return 1;
	}
	out = fopen(argv[0] + 4, "w");
	if (!out) {
		perror(argv[0] + 4);
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	return 0;
}
