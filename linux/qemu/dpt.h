/*
 * A processor that translates user addresses by a distributed page table.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef I386_TCG_DPT_H
#define I386_TCG_DPT_H

#include "cpu.h"
#include "exec/mmu-access-type.h"
#include "exec/page-protection.h"

/* Registers: see linux/dpt_arith.h in the guest's kernel. */
#define MSR_DPT_SPACE   0x44505400
#define MSR_DPT_LAYOUT  0x44505401
#define DPT_LAYOUT      2
#define DPT_SPACE_ON    1ull

typedef enum DptMode {
    DPT_MODE_OFF,
    /* Both walks for every translation; a difference ends the machine. */
    DPT_MODE_CHECK,
    /* Of the radix tree, nothing is read for user addresses. */
    DPT_MODE_ONLY,
} DptMode;

extern DptMode dpt_mode;

/* Whether each access to user data is translated anew. */
extern bool dpt_each;

/* Where a walk ends: 1 for a 4 KB page's entry, to 3 for a 1 GB page's; 0 is nowhere. */
typedef struct DptLeaf {
    int level;
    hwaddr entry;
} DptLeaf;

/*
 * Whether an address is translated by the table. Only in long mode; firmware's
 * interrupts (SMM) have page tables of their own, as nested guests have.
 */
static inline bool dpt_applies(CPUX86State *env, uint64_t addr)
{
    return dpt_mode != DPT_MODE_OFF && (env->dpt_space & DPT_SPACE_ON) &&
           !(addr >> 63) && !(env->hflags & (HF_GUEST_MASK | HF_SMM_MASK));
}

/*
 * What the TLB keeps of a translation. With dpt_each nothing of user data: as for
 * a page that is smaller than the TLB's, the entry holds for this access alone.
 * Instructions keep theirs, or QEMU would compile each one whenever it is run; so
 * their pages are looked up apart from data's.
 */
static inline void dpt_keep(CPUX86State *env, uint64_t addr, MMUAccessType access,
                            int *prot, int *page_size)
{
    if (!dpt_each || !dpt_applies(env, addr)) {
        return;
    }
    if (access == MMU_INST_FETCH) {
        *prot &= PAGE_EXEC;
    } else {
        *prot &= ~PAGE_EXEC;
        *page_size = 1;
    }
}

bool dpt_configure(X86CPU *cpu, Error **errp);
DptLeaf dpt_walk(CPUX86State *env, uint64_t addr);
void dpt_check(CPUX86State *env, uint64_t cr3, bool la57, uint64_t addr);

#endif
