/*
 * The guest's memory, as page walks read it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/address-spaces.h"
#include "exec/memory.h"
#include "dpt_walk.h"

#define PIECES          4
#define FIRST_MB        0x100000

/* Guest memory that is in one piece for the host, too */
typedef struct Piece {
    hwaddr start;
    uint64_t size;
    uint8_t *host;
} Piece;

/* What one processor has found; only its own thread changes it. */
typedef struct Found {
    Piece piece[PIECES];
    unsigned next;
} Found;

static Found found_by[CPUS];

/*
 * A word of guest memory. Each walk reads some twenty, and QEMU's way to memory
 * costs more than all else; so where memory is for the host is kept. The guest's
 * memory is never unplugged. Below 1 MB it may change places with devices'.
 */
uint64_t dpt_load(CPUState *cs, hwaddr addr)
{
    Found *found = &found_by[cs->cpu_index % CPUS];
    hwaddr offset, length = HWADDR_MAX - addr;
    MemoryRegion *region;
    uint8_t *host;
    int i;

    for (i = 0; i < PIECES; i++) {
        const Piece *piece = &found->piece[i];

        if (addr - piece->start < piece->size) {
            host = piece->host + (addr - piece->start);
            return le64_to_cpu(qatomic_read((uint64_t *)host));
        }
    }
    if (addr < FIRST_MB || addr % sizeof(uint64_t)) {
        return x86_ldq_phys(cs, addr);
    }
    region = address_space_translate(cs->as, addr, &offset, &length, false,
                                     MEMTXATTRS_UNSPECIFIED);
    if (!memory_region_is_ram(region) || length < sizeof(uint64_t)) {
        return x86_ldq_phys(cs, addr);
    }
    /* From here to the end of the piece: one that starts earlier replaces it. */
    host = (uint8_t *)memory_region_get_ram_ptr(region) + offset;
    for (i = 0; i < PIECES; i++) {
        const Piece *piece = &found->piece[i];

        if (piece->host + piece->size == host + length) {
            break;
        }
    }
    if (i == PIECES) {
        i = found->next++ % PIECES;
    }
    found->piece[i] = (Piece) { addr, length, host };
    return le64_to_cpu(qatomic_read((uint64_t *)host));
}
