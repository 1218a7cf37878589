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
 * The seed of the hash: the address space's key, which no program knows. Tables
 * of different levels do not meet where their tags are equal: log2 of the pages
 * that an entry maps changes the upper half.
 */
static inline u64 dpt_seed(u64 key, enum dpt_level level)
{
	return (u64)(9 * level) << 32 ^ key;
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
/* None of these places could be had: the table of exceptions has the frame. */
#define DPT_ELSEWHERE		3
#define DPT_MAX_STEP		15

static inline u8 dpt_metadata(enum dpt_level stride, unsigned int step)
{
	return stride | step << 2;
}

/* Whether metadata name a place by stride and step */
static inline bool dpt_metadata_valid(u8 metadata)
{
	return (metadata & 3) != 3;
}

/*
 * Frames of memory that is there are numbered without holes. The one that the
 * hash names, of @frames from 0.
 */
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

/* A piece of memory without a hole: its first page, and how many. */
struct dpt_range {
	u64 start;
	u64 frames;
};

#define DPT_MAX_RANGES		16

/* The page frame number of a frame, which is in one of the ranges */
static inline u64 dpt_pfn(u64 frame, const struct dpt_range *range)
{
	while (frame >= range->frames)
		frame -= range++->frames;
	return range->start + frame;
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
 * Exceptions: tables that are in none of their places. A folder of addresses of
 * pages, each of 64 lines of four exceptions. The upper half of the tag's hash
 * says in which page, and in which of its lines the search begins; it ends with
 * a line that has a slot that was never used.
 */
struct dpt_exception {
	/* The tag, the level, and DPT_EXCEPTION; 0 if never used */
	u64 key;
	u64 pfn;
};

#define DPT_EXCEPTION		1ull
/* With a key: not for the processor. Alone: a slot that was used */
#define DPT_EXCEPTION_HIDDEN	2ull
#define DPT_EXCEPTION_GONE	DPT_EXCEPTION_HIDDEN
#define DPT_EXCEPTIONS_A_LINE	4
#define DPT_EXCEPTION_LINES	64
#define DPT_EXCEPTION_PAGES	512

static inline u64 dpt_exception_key(u64 tag, enum dpt_level level)
{
	return tag << 4 | (u64)level << 2 | DPT_EXCEPTION;
}

/* In which of @pages, a power of two */
static inline u64 dpt_exception_page(u64 tag, u64 seed, u64 pages)
{
	return dpt_hash(tag, seed) >> 32 & (pages - 1);
}

static inline unsigned int dpt_exception_line(u64 tag, u64 seed)
{
	return dpt_hash(tag, seed) >> 48 & (DPT_EXCEPTION_LINES - 1);
}

/*
 * What the processor reads before a walk; its register has the address. A
 * table is the address of its first line, and in the low bits log2 of the
 * number of lines; 0 is none. So is the folder of exceptions, with log2 of the
 * number of pages. Of the ranges, the same for all, the low bits are how many.
 */
struct dpt_space {
	u64 key;
	u64 frames;
	u64 table[DPT_LEVELS];
	u64 ranges;
	u64 exceptions;
	u64 reserved;
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
#define DPT_LAYOUT		2
#define DPT_SPACE_ON		1ull

#endif /* _LINUX_DPT_ARITH_H */
