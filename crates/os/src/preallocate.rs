//! Memory in use before the programs start.

use crate::OsConfig;
use crate::buddy::PAGEBLOCK_FRAMES;
use crate::frame_table::tag;

/// Tags for all frames: which are free and which in use, and how, before the programs start.
///
/// Of the free frames, the share 1 - `fragmentation` makes up whole 2 MiB blocks, chosen at
/// random. The others are scattered at random over the remaining blocks, each of which has at
/// least one frame in use. (When there are fewer frames in use than such blocks, fragmentation
/// comes out lower than asked for.) Unmovable frames share 2 MiB blocks among themselves, as the
/// kernel's grouping by mobility is meant to achieve. Rounding apart, the shares are exact.
pub(crate) fn preallocate(config: &OsConfig, seed: u64) -> Vec<u8> {
    let frames = config.frames();
    let mut tags = vec![0; frames as usize];
    let used = (f64::from(frames) * config.utilisation).round() as u32;
    if used == 0 {
        return tags;
    }
    let mut random = SplitMix64(seed);
    let blocks = frames / PAGEBLOCK_FRAMES;
    let free = frames - used;
    let wanted = f64::from(free) * (1.0 - config.fragmentation) / f64::from(PAGEBLOCK_FRAMES);
    // Each block that is not free needs a frame in use, and together they must hold all of them.
    let least = blocks.saturating_sub(used);
    let free_blocks = (wanted.round() as u32).clamp(least, free / PAGEBLOCK_FRAMES);
    let mixed = blocks - free_blocks;
    let mut blocks_left = Draw::new(mixed, blocks);
    let mut unmovable_left = Draw::new(
        (f64::from(mixed) * config.unmovable_share).round() as u32,
        mixed,
    );
    // One frame of each block is in use in any case; the rest are drawn.
    let mut used_left = Draw::new(used - mixed, mixed * (PAGEBLOCK_FRAMES - 1));
    for block in tags.chunks_exact_mut(PAGEBLOCK_FRAMES as usize) {
        if !blocks_left.next(&mut random) {
            continue;
        }
        let unmovable = unmovable_left.next(&mut random);
        let kind = if unmovable {
            tag::UNMOVABLE
        } else {
            tag::PREALLOCATED
        };
        let certain = random.below(PAGEBLOCK_FRAMES) as usize;
        // The last frame changes places with the one that is in use for certain.
        let last = block.len() - 1;
        for tag in &mut block[..last] {
            *tag = if used_left.next(&mut random) { kind } else { 0 };
        }
        block[last] = block[certain];
        block[certain] = kind;
    }
    tags
}

/// Draws exactly `wanted` out of `left`, one by one, each subset as likely as any other (Knuth,
/// The Art of Computer Programming 2, algorithm 3.4.2S).
struct Draw {
    wanted: u32,
    left: u32,
}

impl Draw {
    fn new(wanted: u32, left: u32) -> Self {
        Draw { wanted, left }
    }

    #[inline]
    fn next(&mut self, random: &mut SplitMix64) -> bool {
        let drawn = random.below(self.left) < self.wanted;
        self.left -= 1;
        self.wanted -= u32::from(drawn);
        drawn
    }
}

/// Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
struct SplitMix64(u64);

impl SplitMix64 {
    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, as good as uniform.
    #[inline]
    fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}
