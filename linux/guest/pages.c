// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin: which pages a guest's programs read and write between two marks,
 * in order; the next access to the same page is left out, as a TLB has it in any
 * case.
 *
 *	pages,out=PATH[,limit=ACCESSES]
 *
 * Writes 64 bits for each, little endian: the page's number twice, and 1 more for a
 * store. For guests of one CPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include "plugin.h"

#define PAGE_BITS	12
#define KERNEL		(1ull << 63)

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t last = UINT64_MAX, left = UINT64_MAX;
static bool noting;
static FILE *out;

static void on_begin(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	noting = true;
}

static void on_end(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	noting = false;
	fflush(out);
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
		      void *data)
{
	const uint64_t word = (vaddr >> PAGE_BITS) << 1 | qemu_plugin_mem_is_store(info);

	(void)cpu;
	(void)data;
	if (!noting || !left || (word | 1) == (last | 1))
		return;
	last = word;
	left--;
	fwrite(&word, sizeof(word), 1, out);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i;

	(void)id;
	for (i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		call_at_mark(insn, on_begin, on_end);
		if (qemu_plugin_insn_vaddr(insn) < KERNEL)
			qemu_plugin_register_vcpu_mem_cb(insn, on_access,
				QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
	}
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	char *end;
	int i;

	(void)info;
	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4)) {
			out = fopen(argv[i] + 4, "wb");
		} else if (!strncmp(argv[i], "limit=", 6)) {
			left = strtoull(argv[i] + 6, &end, 0);
			if (*end || end == argv[i] + 6)
				left = 0;
		}
	}
	if (!out || !left || argc > 2) {
		fprintf(stderr, "pages: expected out=PATH[,limit=ACCESSES]\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	return 0;
}
