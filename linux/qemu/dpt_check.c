/*
 * The walk of the radix tree beside that of the distributed page table: both must
 * end at the same entry.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "dpt_walk.h"

#define PRESENT         1
#define WRITABLE        2
#define USER            4
#define NO_EXECUTE      (1ull << 63)
#define LARGE           0x80
#define SPACE_WORDS     7

/* Where the radix tree's walk ends. Entries read are put into @path. */
static DptLeaf radix(CPUState *cs, uint64_t cr3, bool la57, uint64_t addr,
                     uint64_t *path)
{
    hwaddr table = cr3 & ADDRESS;
    DptLeaf leaf = {};
    int level;

    for (level = la57 ? 5 : 4; level; level--) {
        hwaddr entry = table + (addr >> (3 + 9 * level) & 0x1ff) * 8;
        uint64_t value = dpt_load(cs, entry);

        path[level] = value;
        if (level <= SIZES) {
            leaf.level = level;
            leaf.entry = entry;
        }
        if (level == 1 || !(value & PRESENT) || (level <= SIZES && (value & LARGE))) {
            break;
        }
        table = value & ADDRESS;
    }
    return leaf;
}

static bool same(DptLeaf one, DptLeaf other)
{
    return one.level == other.level && one.entry == other.entry;
}

/* Whether an entry of a level maps a page, and no table */
static bool maps(int level, uint64_t value)
{
    return (value & PRESENT) && (level == 1 || (value & LARGE));
}

/* The frame of the address in the page that an entry maps */
static uint64_t frame_of(int level, uint64_t value, uint64_t addr)
{
    uint64_t within = (4096ull << (9 * (level - 1))) - 1;

    return ((value & ADDRESS & ~within) | (addr & within)) >> 12;
}

/*
 * The walks differ. Where the tree did not change meanwhile, neither is the hash
 * too early nor too late for it: whatever it finds, a processor would use. It may
 * be a page that is being taken away, whose translations are flushed next, or the
 * same page in another size. It must not be another page.
 */
static void count_difference(CPUState *cs, Counts *c, uint64_t cr3, bool la57,
                             uint64_t addr, DptLeaf tree, DptLeaf hashed,
                             uint64_t value)
{
    uint64_t found, path[6] = {};

    c->retries++;
    if (!hashed.level) {
        return;
    }
    found = dpt_load(cs, hashed.entry);
    if (!maps(hashed.level, found) ||
        !same(tree, radix(cs, cr3, la57, addr, path)) || path[tree.level] != value) {
        return;
    }
    c->retries_present++;
    if (tree.level && maps(tree.level, value) &&
        frame_of(tree.level, value, addr) != frame_of(hashed.level, found, addr)) {
        c->mistranslated++;
    }
}

/*
 * The level above a page's entry that allows less than all, or 0: what it takes
 * away, a walk by hash would not see.
 */
static int restricted(DptLeaf leaf, bool la57, const uint64_t *path)
{
    int level;

    if (!leaf.level || !maps(leaf.level, path[leaf.level])) {
        return 0;
    }
    for (level = leaf.level + 1; level <= (la57 ? 5 : 4); level++) {
        if (!(path[level] & WRITABLE) || !(path[level] & USER) ||
            (path[level] & NO_EXECUTE)) {
            return level;
        }
    }
    return 0;
}

static G_NORETURN void differ(CPUX86State *env, uint64_t addr, DptLeaf tree,
                              DptLeaf hashed, int above, const uint64_t *path)
{
    uint64_t space = env->dpt_space & ~DPT_SPACE_ON;
    CPUState *cs = env_cpu(env);
    int level;

    fprintf(stderr, "dpt: the walks of 0x%" PRIx64 " differ on CPU %d\n"
            "dpt: radix: ends at level %d, entry at 0x%" HWADDR_PRIx "\n"
            "dpt: hash: ends at level %d, entry at 0x%" HWADDR_PRIx "\n",
            addr, cs->cpu_index, tree.level, tree.entry, hashed.level,
            hashed.entry);
    if (above) {
        fprintf(stderr, "dpt: radix: level %d allows less than the last one\n", above);
    }
    for (level = 5; level; level--) {
        fprintf(stderr, "dpt: radix level %d: 0x%016" PRIx64 "\n", level, path[level]);
    }
    for (level = 0; level < SPACE_WORDS && space; level++) {
        fprintf(stderr, "dpt: space word %d: 0x%016" PRIx64 "\n", level,
                dpt_load(cs, space + 8 * level));
    }
    fprintf(stderr, "dpt: rip 0x%" PRIx64 ", cr3 0x%" PRIx64 ", space 0x%" PRIx64 "\n",
            (uint64_t)env->eip, (uint64_t)env->cr[3], env->dpt_space);
    dpt_print_counts();
    /* Not exit(): this is not the main thread. */
    _exit(1);
}

/*
 * Walk both ways. Another processor may change the tables between the walks, or
 * be stopped in the middle of a change: a difference that passes is none.
 */
void dpt_check(CPUX86State *env, uint64_t cr3, bool la57, uint64_t addr)
{
    uint64_t space = env->dpt_space & ~DPT_SPACE_ON;
    CPUState *cs = env_cpu(env);
    Counts *c = dpt_counts(cs);
    uint64_t path[6] = {};
    DptLeaf tree, hashed;
    int attempt, above = 0;

    c->checks++;
    dpt_count_page(c, env->dpt_space, addr);
    for (attempt = 0; ; attempt++) {
        tree = radix(cs, cr3, la57, addr, path);
        hashed = dpt_by_hash(cs, c, space, addr);
        if (same(tree, hashed)) {
            above = restricted(tree, la57, path);
            if (!above) {
                dpt_count_leaf(c, hashed);
                return;
            }
            c->retries++;
        } else {
            above = 0;
            count_difference(cs, c, cr3, la57, addr, tree, hashed,
                             path[tree.level]);
        }
        if (attempt >= 20000) {
            differ(env, addr, tree, hashed, above, path);
        }
        if (attempt >= 1000) {
            g_usleep(100);
        }
    }
}
