/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The arithmetic of the distributed page table: where the hash puts a page of
 * page table entries, and how its metadata says where it really is. The
 * processor computes the same.
 *
 * After "Distributed Page Table: Harnessing Physical Memory as An Unbounded
 * Hashed Page Table" (Kwon et al.; MICRO 2024).
 */
#ifndef _LINUX_DPT_ARITH_H
#define _LINUX_DPT_ARITH_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#include <stdbool.h>
typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
#endif

/*
 * A page of page table entries is of a level: its entries map pages of 4 KB,
 * 2 MB or 1 GB. Its tag is the address without the bits that choose an entry
 * and a byte.
 */
enum dpt_level { DPT_4K, DPT_2M, DPT_1G, DPT_LEVELS };

static inline u64 dpt_tag(u64 address, enum dpt_level level)
{
	return address >> (21 + 9 * level);
}

/*
 * Tables of different levels do not meet where their tags are equal: log2 of
 * the pages that an entry maps is in the upper half.
 */
static inline u64 dpt_seed(u32 id, enum dpt_level level)
{
	return (u64)(9 * level) << 32 | id;
}

static inline u64 dpt_rotate(u64 value, unsigned int shift)
{
	return value >> shift | value << (64 - shift);
}

/* CityHash's HashLen16 */
static inline u64 dpt_hash_16(u64 u, u64 v, u64 mul)
{
	u64 a = (u ^ v) * mul, b;

	a ^= a >> 47;
	b = (v ^ a) * mul;
	b ^= b >> 47;
	return b * mul;
}

/* CityHash64WithSeed, version 1.1, of the eight bytes of @key */
static inline u64 dpt_hash(u64 key, u64 seed)
{
	const u64 k2 = 0x9ae16a3b2f90404full;
	const u64 mul = k2 + 16;
	u64 a = key + k2;
	u64 c = dpt_rotate(key, 37) * mul + a;
	u64 d = (dpt_rotate(a, 25) + key) * mul;

	return dpt_hash_16(dpt_hash_16(c, d, mul) - k2, seed, 0x9ddfea08eb382d69ull);
}

/*
 * Metadata: the stride in two bits, one of 1, 512 and 256K frames, and above
 * them how many strides the page is away from the frame that the hash names.
 */
#define DPT_METADATA_BITS	6
#define DPT_INVALID		0x3f
#define DPT_MAX_STEP		15

static inline u8 dpt_metadata(enum dpt_level stride, unsigned int step)
{
	return stride | step << 2;
}

static inline bool dpt_metadata_valid(u8 metadata)
{
	return (metadata & 3) != 3;
}

/* The frame that the hash names, of @frames from 0 */
static inline u64 dpt_base_frame(u64 tag, u64 seed, u64 frames)
{
	return dpt_hash(tag, seed) % frames;
}

/* The frame that metadata name, around the end of memory */
static inline u64 dpt_frame(u64 base, u8 metadata, u64 frames)
{
	u64 stride = 1ull << (9 * (metadata & 3));

	return (base + stride * (metadata >> 2)) % frames;
}

/*
 * The metadata of 64 neighbouring tags, a group, fill a line of the metadata
 * table: a word that says which group, then ten a word.
 */
#define DPT_GROUP_SHIFT		6
#define DPT_PER_WORD		10
#define DPT_LINE_WORDS		8
#define DPT_MAX_PROBES		64

struct dpt_line {
	u64 head;
	u64 word[DPT_LINE_WORDS - 1];
};

/* Of the head: the group, whether there is one, and how many pages it has. */
#define DPT_HEAD_GROUP		((1ull << 31) - 1)
#define DPT_HEAD_USED		(1ull << 31)
#define DPT_HEAD_PAGES_SHIFT	32
#define DPT_HEAD_PAGE		(1ull << DPT_HEAD_PAGES_SHIFT)

static inline u64 dpt_line_first(u64 group, u64 seed, u64 lines)
{
	return (u32)dpt_hash(group, seed) & (lines - 1);
}

static inline bool dpt_line_is(u64 head, u64 group)
{
	return (head & (DPT_HEAD_USED | DPT_HEAD_GROUP)) == (DPT_HEAD_USED | group);
}

static inline unsigned int dpt_line_shift(u64 tag)
{
	return (tag & ((1 << DPT_GROUP_SHIFT) - 1)) % DPT_PER_WORD * DPT_METADATA_BITS;
}

static inline unsigned int dpt_line_word(u64 tag)
{
	return (tag & ((1 << DPT_GROUP_SHIFT) - 1)) / DPT_PER_WORD;
}

/*
 * What the processor reads before a walk; its register has the address. A
 * table is the address of its first line, and in the low bits log2 of the
 * number of lines; 0 is none.
 */
struct dpt_space {
	u64 id;
	u64 frames;
	u64 table[DPT_LEVELS];
	u64 reserved[3];
};

#define DPT_TABLE_LINES(table)	(1ull << ((table) & 0xfff))
#define DPT_TABLE_BASE(table)	((table) & ~0xfffull)

/*
 * The processor's registers: it has them if the second one reads as the number
 * of this layout. The first one's lowest bit switches translation by them on;
 * without an address there, no user address is mapped.
 */
#define DPT_MSR_SPACE		0x44505400
#define DPT_MSR_LAYOUT		0x44505401
#define DPT_LAYOUT		1
#define DPT_SPACE_ON		1ull

#endif /* _LINUX_DPT_ARITH_H */
