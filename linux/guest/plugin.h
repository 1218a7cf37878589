/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For the plugins here: what they use of QEMU's interface, version 1 (QEMU 4.2 to
 * 9.0), and the marks in a program between which they count. A mark is a no-op
 * with an immediate of its own, so that programs that have marks run anywhere
 * (linux/tests/foliomap/lab.h).
 */
#ifndef _PLUGIN_H
#define _PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
typedef struct {
	const char *target_name;
	struct { int min, cur; } version;
	bool system_emulation;
	struct { int smp_vcpus, max_vcpus; } system;
} qemu_info_t;
enum { QEMU_PLUGIN_INLINE_ADD_U64 };
enum { QEMU_PLUGIN_CB_NO_REGS };
enum { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn,
		int op, void *counter, uint64_t add);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
		void (*cb)(unsigned int cpu, void *data), int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
		void (*cb)(unsigned int cpu, qemu_plugin_meminfo_t info,
			   uint64_t vaddr, void *data),
		int flags, int rw, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
		void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info,
						  uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *hwaddr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *hwaddr);

enum mark { MARK_NONE, MARK_BEGIN, MARK_END };

/* nopl of 0x07a61ab1 (begin) or 0x07a61ab2 (end) past %rax */
static inline enum mark mark_of(const uint8_t *code, size_t size)
{
	static const uint8_t mark[] = { 0x0f, 0x1f, 0x80 };
	static const uint8_t rest[] = { 0x1a, 0xa6, 0x07 };

	if (size != 7 || memcmp(code, mark, 3) || memcmp(code + 4, rest, 3))
		return MARK_NONE;
	return code[3] == 0xb1 ? MARK_BEGIN : code[3] == 0xb2 ? MARK_END : MARK_NONE;
}

/* Calls one of two functions when an instruction is executed that is a mark. */
static inline void call_at_mark(struct qemu_plugin_insn *insn,
				void (*begin)(unsigned int cpu, void *data),
				void (*end)(unsigned int cpu, void *data))
{
	const enum mark mark = mark_of(qemu_plugin_insn_data(insn),
				       qemu_plugin_insn_size(insn));

	if (mark)
		qemu_plugin_register_vcpu_insn_exec_cb(insn,
			mark == MARK_BEGIN ? begin : end, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

#endif /* _PLUGIN_H */
