// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin: how often a guest's kernel executes the instructions at some addresses,
 * the first of functions, between two marks in a program.
 *
 *	calls,out=PATH,at=ADDRESS[,at=ADDRESS...]
 *
 * Writes a line with a number for each address to PATH at the second mark. For guests of
 * one CPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include "plugin.h"

#define MAX_ADDRESSES	64

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t addresses[MAX_ADDRESSES], counts[MAX_ADDRESSES], then[MAX_ADDRESSES];
static int nr_addresses;
static FILE *out;

static void on_begin(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	memcpy(then, counts, sizeof(then));
}

static void on_end(unsigned int cpu, void *data)
{
	int i;

	(void)cpu;
	(void)data;
	for (i = 0; i < nr_addresses; i++)
		fprintf(out, "%lu ", (unsigned long)(counts[i] - then[i]));
	fprintf(out, "\n");
	fflush(out);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i;
	int j;

	(void)id;
	for (i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint64_t address = qemu_plugin_insn_vaddr(insn);

		for (j = 0; j < nr_addresses; j++)
			if (addresses[j] == address)
				qemu_plugin_register_vcpu_insn_exec_inline(insn,
					QEMU_PLUGIN_INLINE_ADD_U64, &counts[j], 1);
		call_at_mark(insn, on_begin, on_end);
	}
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	const char *path = NULL;
	int i;

	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			path = argv[i] + 4;
		else if (!strncmp(argv[i], "at=", 3) && nr_addresses < MAX_ADDRESSES)
			addresses[nr_addresses++] = strtoull(argv[i] + 3, NULL, 16);
		else
			path = NULL, i = argc;
	}
	if (!path || info->system.max_vcpus != 1) {
		fprintf(stderr, "calls: expected out=PATH,at=ADDRESS and one CPU\n");
		return 1;
	}
	out = fopen(path, "w");
	if (!out) {
		perror(path);
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	return 0;
}
