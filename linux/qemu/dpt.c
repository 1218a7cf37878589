/*
 * A processor that translates user addresses by a distributed page table.
 *
 * After "Distributed Page Table: Harnessing Physical Memory as An Unbounded
 * Hashed Page Table" (Kwon et al.; MICRO 2024), sections IV, V and VII. What
 * the tables look like in memory is the guest kernel's, linux/dpt_arith.h.
 * This shares no code with it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "cpu.h"
#include "dpt_walk.h"
#include "walks.h"

#define METADATA_BITS   6
#define METADATA_MASK   0x3f
#define NO_STRIDE       3
/* Metadata of no table, and of one whose place an exception has */
#define NONE            0x3f
#define ELSEWHERE       3
#define COUNT_MASK      0xfff
#define RANGE_BYTES     16
#define SLOT_BYTES      16
#define SLOTS_A_LINE    4
#define SLOT_LINES      64
#define SLOT_VALID      1
#define FRAMES_AT       8
#define TABLES_AT       16
#define RANGES_AT       40
#define EXCEPTIONS_AT   48
#define GROUP_SHIFT     6
#define METADATA_A_WORD 10
#define LINE_BYTES      64
#define LINE_GROUP      0xffffffffull
#define LINE_USED       0x80000000ull
#define MAX_PROBES      64
#define WAYS            4

/* Table I: entries of the metadata caches, for each page size */
static const int cache_entries[SIZES] = { 32, 16, 16 };
static Counts counts[CPUS];
static const char *out_path;
static const char *mode_name;
DptMode dpt_mode;
bool dpt_each;

void dpt_print_counts(void)
{
    FILE *out = out_path ? fopen(out_path, "w") : stderr;
    Counts sum = {};
    int cpu, size;

    if (!out) {
        return;
    }
    for (cpu = 0; cpu < CPUS; cpu++) {
        const Counts *c = &counts[cpu];

        sum.walks += c->walks;
        sum.checks += c->checks;
        sum.retries += c->retries;
        sum.retries_present += c->retries_present;
        sum.mistranslated += c->mistranslated;
        sum.absent += c->absent;
        sum.other_pages += c->other_pages;
        sum.metadata_reads += c->metadata_reads;
        sum.exceptions += c->exceptions;
        for (size = 0; size < SIZES; size++) {
            sum.leaves[size] += c->leaves[size];
            sum.cache_hits[size] += c->cache_hits[size];
            sum.cache_misses[size] += c->cache_misses[size];
        }
    }
    fprintf(out, "{\"mode\": \"%s\", \"walks\": %" PRIu64 ", \"checks\": %" PRIu64
            ", \"other_pages\": %" PRIu64 ", \"retries\": %" PRIu64
            ", \"retries_present\": %" PRIu64 ", \"mistranslated\": %" PRIu64
            ", \"absent\": %" PRIu64 ", \"metadata_reads\": %" PRIu64
            ", \"exceptions\": %" PRIu64,
            mode_name, sum.walks, sum.checks, sum.other_pages, sum.retries,
            sum.retries_present, sum.mistranslated, sum.absent, sum.metadata_reads,
            sum.exceptions);
    for (size = 0; size < SIZES; size++) {
        static const char *const names[SIZES] = { "4k", "2m", "1g" };

        fprintf(out, ", \"leaves_%s\": %" PRIu64 ", \"dmc_hits_%s\": %" PRIu64
                ", \"dmc_misses_%s\": %" PRIu64, names[size], sum.leaves[size],
                names[size], sum.cache_hits[size], names[size],
                sum.cache_misses[size]);
    }
    fprintf(out, "}\n");
    fflush(out);
}

bool dpt_configure(X86CPU *cpu, Error **errp)
{
    static const struct {
        const char *name;
        DptMode mode;
        bool each;
    } modes[] = {
        { "check", DPT_MODE_CHECK, false }, { "check-each", DPT_MODE_CHECK, true },
        { "dpt", DPT_MODE_ONLY, false }, { "dpt-each", DPT_MODE_ONLY, true },
    };
    int i;

    if (!cpu->dpt) {
        return true;
    }
    for (i = 0; i < ARRAY_SIZE(modes); i++) {
        if (strcmp(cpu->dpt, modes[i].name)) {
            continue;
        }
        if (dpt_mode == DPT_MODE_OFF) {
            dpt_mode = modes[i].mode;
            dpt_each = modes[i].each;
            mode_name = modes[i].name;
            out_path = g_strdup(cpu->dpt_out);
            atexit(dpt_print_counts);
        }
        return true;
    }
    error_setg(errp, "x-dpt is 'check' or 'dpt', or with '-each', not '%s'", cpu->dpt);
    return false;
}

Counts *dpt_counts(CPUState *cs)
{
    return &counts[cs->cpu_index % CPUS];
}

/* CityHash64WithSeed, version 1.1, of a key of eight bytes */
static uint64_t mix(uint64_t low, uint64_t high, uint64_t factor)
{
    uint64_t x = (low ^ high) * factor;
    uint64_t y;

    x ^= x >> 47;
    y = (high ^ x) * factor;
    y ^= y >> 47;
    return y * factor;
}

static uint64_t city(uint64_t key, uint64_t seed)
{
    const uint64_t k2 = 0x9ae16a3b2f90404full;
    const uint64_t factor = k2 + 2 * 8;
    uint64_t sum = key + k2;
    uint64_t first = ror64(key, 37) * factor + sum;
    uint64_t second = (ror64(sum, 25) + key) * factor;

    return mix(mix(first, second, factor) - k2, seed, 0x9ddfea08eb382d69ull);
}

/* Whether the metadata cache has a group's line; it has afterwards. */
static bool cached(Counts *c, int size, uint64_t space, uint64_t group)
{
    int sets = cache_entries[size] / WAYS;
    CacheEntry *set = &c->cache[size][(group & (sets - 1)) * WAYS];
    CacheEntry *oldest = set;
    int way;

    c->clock++;
    for (way = 0; way < WAYS; way++) {
        if (set[way].used && set[way].space == space && set[way].group == group) {
            set[way].used = c->clock;
            c->cache_hits[size]++;
            return true;
        }
        if (set[way].used < oldest->used) {
            oldest = &set[way];
        }
    }
    *oldest = (CacheEntry) { space, group, c->clock };
    c->cache_misses[size]++;
    return false;
}

static uint64_t seed_of(uint64_t key, int size)
{
    return key ^ (uint64_t)(9 * size) << 32;
}

/*
 * The metadata of a tag, NONE if there is none. They are read from memory
 * even if the cache has them: what is in the cache is counted only, as if it
 * were kept coherent at no cost.
 */
static unsigned metadata(CPUState *cs, Counts *c, int size, uint64_t space,
                         uint64_t key, uint64_t table, uint64_t tag)
{
    uint64_t group = tag >> GROUP_SHIFT;
    uint64_t lines = 1ull << (table & COUNT_MASK);
    hwaddr base = table & ADDRESS;
    uint64_t slot = city(group, seed_of(key, size)) & 0xffffffff;
    bool hit = cached(c, size, space, group);
    uint64_t probe, head;

    for (probe = 0; probe < MIN(lines, MAX_PROBES); probe++) {
        hwaddr line = base + ((slot + probe) & (lines - 1)) * LINE_BYTES;

        head = dpt_load(cs, line);
        c->metadata_reads += !hit;
        if ((head & LINE_GROUP) == (LINE_USED | group)) {
            unsigned index = tag & ((1 << GROUP_SHIFT) - 1);
            uint64_t word;

            smp_rmb();
            word = dpt_load(cs, line + 8 + index / METADATA_A_WORD * 8);
            /* As if a line was read as one: another group may have got it since. */
            smp_rmb();
            if ((dpt_load(cs, line) & LINE_GROUP) != (LINE_USED | group)) {
                return NONE;
            }
            walks_read(line, word);
            return word >> (index % METADATA_A_WORD * METADATA_BITS) & METADATA_MASK;
        }
        walks_read(line, head);
        if (!(head & LINE_USED)) {
            break;
        }
    }
    return NONE;
}

/* The number of the page that a frame is: frames are numbered without the holes. */
static uint64_t page_of(CPUState *cs, uint64_t ranges, uint64_t frame)
{
    hwaddr range = ranges & ADDRESS;
    hwaddr end = range + (ranges & COUNT_MASK) * RANGE_BYTES;

    for (; range < end; range += RANGE_BYTES) {
        uint64_t frames = dpt_load(cs, range + 8);

        if (frame < frames) {
            return dpt_load(cs, range) + frame;
        }
        frame -= frames;
    }
    return 0;
}

/* The number of the page of an exceptional table. A search ends with a line that has a hole. */
static uint64_t exception(CPUState *cs, Counts *c, uint64_t space, int size,
                          uint64_t tag, uint64_t hash)
{
    uint64_t folder = dpt_load(cs, space + EXCEPTIONS_AT);
    uint64_t wanted = tag << 4 | size << 2 | SLOT_VALID;
    hwaddr entry = (folder & ADDRESS) +
                   (hash >> 32 & ((1ull << (folder & COUNT_MASK)) - 1)) * 8;
    hwaddr slots;
    int probe, i;

    if (!folder) {
        return 0;
    }
    slots = dpt_load(cs, entry);
    walks_read(entry, slots);
    c->exceptions++;
    for (probe = 0; probe < SLOT_LINES; probe++) {
        hwaddr line = slots + (((hash >> 48) + probe) & (SLOT_LINES - 1)) * LINE_BYTES;
        bool last = false;

        for (i = 0; i < SLOTS_A_LINE; i++) {
            uint64_t key = dpt_load(cs, line + i * SLOT_BYTES), page;

            last |= !key;
            if (key != wanted) {
                continue;
            }
            smp_rmb();
            page = dpt_load(cs, line + i * SLOT_BYTES + 8);
            /* As if a line was read as one */
            smp_rmb();
            walks_read(line, page);
            return dpt_load(cs, line + i * SLOT_BYTES) == wanted ? page : 0;
        }
        walks_read(line, 0);
        if (last) {
            break;
        }
    }
    return 0;
}

/* Equation 1, or the exception to it, and the entry's place in the table; 0 if there is none. */
static hwaddr entry_of(CPUState *cs, Counts *c, uint64_t space, uint64_t key, int size,
                       uint64_t addr, unsigned found)
{
    uint64_t tag = addr >> (21 + 9 * size);
    uint64_t hash = city(tag, seed_of(key, size));
    uint64_t frames = dpt_load(cs, space + FRAMES_AT);
    uint64_t away = (uint64_t)(found >> 2) << (9 * (found & 3));
    uint64_t page;

    if (found == ELSEWHERE) {
        page = exception(cs, c, space, size, tag, hash);
    } else {
        page = page_of(cs, dpt_load(cs, space + RANGES_AT), (hash % frames + away) % frames);
    }
    return page ? page << 12 | (addr >> (12 + 9 * size) & 0x1ff) << 3 : 0;
}

/* For a list of walks: what the registers have. */
static void tell_registers(CPUState *cs, uint64_t space)
{
    uint64_t ranges = dpt_load(cs, space + RANGES_AT);
    unsigned i;

    walks_read(space, dpt_load(cs, space));
    walks_read(ranges & COUNT_MASK, dpt_load(cs, space + FRAMES_AT));
    for (i = 0; i < (ranges & COUNT_MASK); i++) {
        hwaddr range = (ranges & ADDRESS) + i * RANGE_BYTES;

        walks_read(dpt_load(cs, range), dpt_load(cs, range + 8));
    }
}

void dpt_count_page(Counts *c, uint64_t space, uint64_t addr)
{
    uint64_t page = addr >> 12;

    c->other_pages += page != c->last_page || space != c->last_space;
    c->last_page = page;
    c->last_space = space;
}

DptLeaf dpt_by_hash(CPUState *cs, Counts *c, uint64_t space, uint64_t addr)
{
    uint64_t key, table;
    DptLeaf leaf = {};
    unsigned found, valid = NONE;
    int size;

    if (!space) {
        return leaf;
    }
    key = dpt_load(cs, space);
    tell_registers(cs, space);
    /* Of valid metadata those of the smallest page count. */
    for (size = 0; size < SIZES; size++) {
        table = dpt_load(cs, space + TABLES_AT + 8 * size);
        if (!table) {
            continue;
        }
        found = metadata(cs, c, size, space, key, table, addr >> (21 + 9 * size));
        if (((found & 3) != NO_STRIDE || found == ELSEWHERE) && !leaf.level) {
            leaf.level = size + 1;
            valid = found;
        }
    }
    if (leaf.level) {
        leaf.entry = entry_of(cs, c, space, key, leaf.level - 1, addr, valid);
    }
    if (!leaf.entry) {
        return (DptLeaf) {};
    }
    walks_read(leaf.level, valid);
    return leaf;
}

void dpt_count_leaf(Counts *c, DptLeaf leaf)
{
    if (leaf.level) {
        c->leaves[leaf.level - 1]++;
    } else {
        c->absent++;
    }
}

DptLeaf dpt_walk(CPUX86State *env, uint64_t addr)
{
    CPUState *cs = env_cpu(env);
    Counts *c = dpt_counts(cs);
    DptLeaf leaf;

    walks_by_hash();
    leaf = dpt_by_hash(cs, c, env->dpt_space & ~DPT_SPACE_ON, addr);
    c->walks++;
    dpt_count_page(c, env->dpt_space, addr);
    dpt_count_leaf(c, leaf);
    return leaf;
}
