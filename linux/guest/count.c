// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin: how many instructions, and how many atomic ones, a guest executes
 * between two marks. A mark is a no-op with an immediate of its own, so that
 * programs that have marks run anywhere (linux/tests/foliomap/lab.h).
 *
 * Writes a line "INSTRUCTIONS ATOMICS" for every pair of marks to the file given
 * as out=PATH. For guests of one CPU.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What is used of QEMU's plugin interface, version 1 (QEMU 4.2 to 9.0). */
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { QEMU_PLUGIN_INLINE_ADD_U64 };
enum { QEMU_PLUGIN_CB_NO_REGS };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn,
		int op, void *counter, uint64_t add);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
		void (*cb)(unsigned int cpu, void *data), int flags, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
		void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t instructions, atomics;
static uint64_t instructions_then, atomics_then;
static FILE *out;

static void on_begin(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	instructions_then = instructions;
	atomics_then = atomics;
}

static void on_end(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	fprintf(out, "%lu %lu\n", (unsigned long)(instructions - instructions_then),
		(unsigned long)(atomics - atomics_then));
	fflush(out);
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

/* nopl of 0x07a61ab1 (begin) or 0x07a61ab2 (end) past %rax */
static int mark_of(const uint8_t *code, size_t size)
{
	static const uint8_t mark[] = { 0x0f, 0x1f, 0x80 };
	static const uint8_t rest[] = { 0x1a, 0xa6, 0x07 };

	if (size != 7 || memcmp(code, mark, 3) || memcmp(code + 4, rest, 3))
		return 0;
	return code[3] == 0xb1 ? 1 : code[3] == 0xb2 ? 2 : 0;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i;

	(void)id;
	for (i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *code = qemu_plugin_insn_data(insn);
		const size_t size = qemu_plugin_insn_size(insn);
		const int mark = mark_of(code, size);

		qemu_plugin_register_vcpu_insn_exec_inline(insn,
			QEMU_PLUGIN_INLINE_ADD_U64, &instructions, 1);
		if (is_atomic(code, size))
			qemu_plugin_register_vcpu_insn_exec_inline(insn,
				QEMU_PLUGIN_INLINE_ADD_U64, &atomics, 1);
		if (mark)
			qemu_plugin_register_vcpu_insn_exec_cb(insn,
				mark == 1 ? on_begin : on_end,
				QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	(void)info;
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
