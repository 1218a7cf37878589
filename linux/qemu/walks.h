/*
 * Tells a plugin of the page walks that the processor makes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef I386_TCG_WALKS_H
#define I386_TCG_WALKS_H

#include "cpu.h"

/* Around a walk, of the tree if nothing else is said. */
void walks_begin(void);
void walks_end(CPUX86State *env, vaddr addr, MMUAccessType access,
               uint64_t paddr, uint64_t page_size);

/* An entry was read. */
void walks_read(hwaddr entry, uint64_t value);

/* The walk starts, or starts again, by hash and metadata: dpt.c. */
void walks_by_hash(void);

#endif
