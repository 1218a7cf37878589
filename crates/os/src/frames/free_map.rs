//! Map of the free frames where memory has so many free blocks of each order.

use crate::frames::buddy::{PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};
use crate::frames::free_blocks::{self, count, holders};
use crate::frames::random::{Draw, SplitMix64};
use crate::frames::tag;
use crate::{OsConfig, OsConfigError};

/// Tags for all frames, of which those are free that make up `config.free_blocks`.
///
/// A free block below the largest order has a buddy that is in use, at least in part: else both
/// would be one. So blocks that are not free are halved order by order, and of as many as wanted
/// one half becomes free, and those below lie in few of what is left. Blocks below
/// 2 MiB lie in 2 MiB blocks of the zone that memory is taken from first, as the kernel's grouping
/// by mobility is meant to achieve.
///
/// # Errors
/// As [`free_blocks::mixed_blocks`].
pub(crate) fn place(config: &OsConfig, seed: u64) -> Result<Vec<u8>, OsConfigError> {
    let free = config.free_blocks.as_slice();
    let mixed = free_blocks::mixed_blocks(free, config.max_order, config.frames())?;
    let mut random = SplitMix64(seed);
    let mut tags = used(config, &mut random);
    let step = 1 << config.max_order;
    let mut blocks: Vec<u32> = (0..config.frames()).step_by(step).collect();
    random.shuffle(&mut blocks);
    let whole = count(free, config.max_order) as usize;
    for first in blocks.drain(..whole) {
        tags[first as usize..first as usize + step].fill(0);
    }
    for order in (0..config.max_order).rev() {
        if order + 1 == PAGEBLOCK_ORDER {
            let zones = config.zone_frames();
            let zone = |pfn: &u32| zones.partition_point(|start| start <= pfn);
            blocks.sort_by_key(|pfn| std::cmp::Reverse(zone(pfn)));
            blocks.truncate(mixed as usize);
            random.shuffle(&mut blocks);
        } else if order + 1 < PAGEBLOCK_ORDER {
            let all = blocks.len() as u64;
            let wanted = holders(all, order + 1, free).unwrap_or(all);
            blocks.truncate(wanted as usize);
        }
        blocks = halve(&mut tags, &blocks, order, count(free, order), &mut random);
    }
    Ok(tags)
}

/// Frees one half of the first `free` of these blocks of twice 2^`order` frames; returns all other
/// halves in random order.
fn halve(
    tags: &mut [u8],
    blocks: &[u32],
    order: u32,
    free: u32,
    random: &mut SplitMix64,
) -> Vec<u32> {
    let mut halves = Vec::with_capacity(2 * blocks.len());
    for (number, &first) in blocks.iter().enumerate() {
        let mut own = [first, first + (1 << order)];
        if number < free as usize {
            if random.below(2) == 1 {
                own.reverse();
            }
            let start = own[0] as usize;
            tags[start..start + (1 << order)].fill(0);
            halves.push(own[1]);
        } else {
            halves.extend(own);
        }
    }
    random.shuffle(&mut halves);
    halves
}

/// Tags of a memory that is all in use: the unmovable share of its 2 MiB blocks, drawn at random,
/// and movable pages.
fn used(config: &OsConfig, random: &mut SplitMix64) -> Vec<u8> {
    let mut tags = vec![tag::PREALLOCATED; config.frames() as usize];
    let blocks = config.frames() / PAGEBLOCK_FRAMES;
    let unmovable = (f64::from(blocks) * config.unmovable_share).round() as u32;
    let mut left = Draw::new(unmovable, blocks);
    for block in tags.chunks_exact_mut(PAGEBLOCK_FRAMES as usize) {
        if left.next(random) {
            block.fill(tag::UNMOVABLE);
        }
    }
    tags
}
