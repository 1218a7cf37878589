//! Memory in use before the programs start.

use crate::frames::buddy::PAGEBLOCK_FRAMES;
use crate::frames::random::{Draw, SplitMix64};
use crate::frames::{free_blocks, free_map, tag};
use crate::{OsConfig, OsConfigError};

/// Tags for all frames: which are free and which in use, and how, before the programs start.
pub(crate) fn preallocate(config: &OsConfig, seed: u64) -> Result<Vec<u8>, OsConfigError> {
    if !config.free_blocks.is_empty() {
        return free_map::place(config, seed);
    }
    let mut tags = vec![0; config.frames() as usize];
    scatter(&mut tags, used_frames(config), config, seed);
    Ok(tags)
}

/// Frames in use before the programs start.
pub(crate) fn used_frames(config: &OsConfig) -> u32 {
    if config.free_blocks.is_empty() {
        (f64::from(config.frames()) * config.utilisation).round() as u32
    } else {
        let free = free_blocks::free_frames(&config.free_blocks);
        config
            .frames()
            .saturating_sub(free.min(u64::from(u32::MAX)) as u32)
    }
}

/// Puts `used` frames of some 2 MiB blocks to use.
///
/// Of the free frames, the share 1 - `fragmentation` makes up whole 2 MiB blocks, chosen at
/// random. The others are scattered at random over the remaining blocks, each of which has at
/// least one frame in use. (When there are fewer frames in use than such blocks, fragmentation
/// comes out lower than asked for.) Unmovable frames share 2 MiB blocks among themselves, as the
/// kernel's grouping by mobility is meant to achieve. Rounding apart, the shares are exact.
pub(crate) fn scatter(tags: &mut [u8], used: u32, config: &OsConfig, seed: u64) {
    let frames = tags.len() as u32;
    if used == 0 {
        return;
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
}
