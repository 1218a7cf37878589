/*
 * Tells a plugin of the page walks that the processor makes.
 *
 * QEMU's plugin interface reports instructions and accesses, but not what the
 * processor itself reads to translate an address. This adds a function to it:
 * include/qemu/qemu-plugin.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/cputlb.h"
#include "qemu/plugin.h"
#include "walks.h"

/* Five levels; a processor of several may have to read one again and again. */
#define MAX_READS 64

static qemu_plugin_vcpu_walk_cb_t report;

/* Of the walk under way, if any: each processor runs in a thread of its own. */
static __thread qemu_plugin_walk_read reads[MAX_READS];
static __thread uint32_t n_reads;
static __thread bool by_hash;

void qemu_plugin_report_walks(qemu_plugin_vcpu_walk_cb_t cb)
{
    CPUState *cs;

    qatomic_set(&report, cb);
    CPU_FOREACH(cs) {
        tlb_flush(cs);
    }
}

void walks_begin(void)
{
    n_reads = 0;
    by_hash = false;
}

void walks_by_hash(void)
{
    n_reads = 0;
    by_hash = true;
}

void walks_read(hwaddr entry, uint64_t value)
{
    if (n_reads < MAX_READS) {
        reads[n_reads++] = (qemu_plugin_walk_read) { entry, value };
    }
}

/* Disable CFI checks: the callback is in another library. */
QEMU_DISABLE_CFI
void walks_end(CPUX86State *env, vaddr addr, MMUAccessType access,
               uint64_t paddr, uint64_t page_size)
{
    qemu_plugin_vcpu_walk_cb_t cb = qatomic_read(&report);
    qemu_plugin_walk walk = {
        .vaddr = addr,
        .root = env->cr[3],
        .paddr = paddr,
        .page_size = page_size,
        .access = access,
        .by_hash = by_hash,
        .n_reads = n_reads,
        .reads = reads,
    };

    if (cb) {
        cb(env_cpu(env)->cpu_index, &walk);
    }
}
