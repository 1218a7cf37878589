//! Free memory in blocks of given orders, as an allocator that has run for a while has it.

use crate::buddy::{PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};
use crate::random::{Draw, SplitMix64};
use crate::tag;
use crate::{OsConfig, OsConfigError};

/// How much of the blocks that hold smaller free ones is free, in percent, whatever their size: free
/// memory is in heaps at every scale. On a guest of 24 GB that had built kernels for hours it was
/// 40 to 52 % at each order from 1 to 9 (`/proc/kpageflags`), on another 41 % at order 9.
const FREE_PERCENT: u64 = 45;

/// Free frames of `blocks`, the number of free blocks of each order.
pub(crate) fn free_frames(blocks: &[u32]) -> u64 {
    let orders = blocks.iter().enumerate();
    orders
        .map(|(order, &count)| u64::from(count) << order)
        .sum()
}

/// How many 2 MiB blocks share the free blocks smaller than they are.
///
/// # Errors
/// [`OsConfigError`] when the memory cannot have such free blocks.
pub(crate) fn mixed_blocks(config: &OsConfig) -> Result<u32, OsConfigError> {
    let refuse = |reason: String| {
        let key = "free_blocks";
        Err(OsConfigError { key, reason })
    };
    let blocks = &config.free_blocks;
    if blocks.len() > config.max_order as usize + 1 {
        return refuse(format!(
            "{} orders, but the largest order is {}",
            blocks.len(),
            config.max_order
        ));
    }
    if !config.nodes.is_empty() {
        return refuse("does not go with nodes".to_owned());
    }
    let too_many = |order: u32| {
        format!(
            "{} free blocks of order {order} and their neighbours do not fit into {} bytes",
            count(blocks, order),
            config.memory_bytes
        )
    };
    // Blocks of an order that are not free: the halves of those of the order above, of which one
    // half at most is free.
    let mut left = u64::from(config.frames() >> config.max_order);
    for order in (PAGEBLOCK_ORDER..=config.max_order).rev() {
        let free = u64::from(count(blocks, order));
        if free > left {
            return refuse(too_many(order));
        }
        let whole = if order < config.max_order {
            2 * left
        } else {
            left
        };
        left = whole - free;
    }
    match holders(left, PAGEBLOCK_ORDER, blocks) {
        Ok(mixed) => Ok(mixed as u32),
        Err(order) => refuse(too_many(order)),
    }
}

/// How many of `blocks` blocks of 2^`order` frames that are not free hold all smaller free ones;
/// an order of which they cannot as the error.
fn holders(blocks: u64, order: u32, free: &[u32]) -> Result<u64, u32> {
    let small = &free[..free.len().min(order as usize)];
    let frames = free_frames(small) * 100 / FREE_PERCENT;
    let mut count = blocks.min(frames.div_ceil(1 << order));
    while let Some(overfull) = overfull(count, order, small) {
        if count == blocks {
            return Err(overfull);
        }
        count = blocks.min(count + 1 + count / 64);
    }
    Ok(count)
}

/// The first order of which so many blocks of 2^`of` frames cannot have as many free blocks as wanted.
fn overfull(blocks: u64, of: u32, small: &[u32]) -> Option<u32> {
    let mut left = blocks;
    (0..of).rev().find(|&order| {
        let free = u64::from(count(small, order));
        let fits = free <= left;
        left = (2 * left).saturating_sub(free);
        !fits
    })
}

fn count(blocks: &[u32], order: u32) -> u32 {
    blocks.get(order as usize).copied().unwrap_or(0)
}

/// Tags for all frames, of which those are free that make up `config.free_blocks`.
///
/// A free block below the largest order has a buddy that is in use, at least in part: else both
/// would be one. So blocks that are not free are halved order by order, and of as many as wanted
/// one half becomes free, and those below lie in few of what is left ([`FREE_PERCENT`]). Blocks below
/// 2 MiB lie in 2 MiB blocks of the zone that memory is taken from first, as the kernel's grouping
/// by mobility is meant to achieve.
///
/// # Errors
/// As [`mixed_blocks`].
pub(crate) fn place(config: &OsConfig, seed: u64) -> Result<Vec<u8>, OsConfigError> {
    let mixed = mixed_blocks(config)?;
    let mut random = SplitMix64(seed);
    let mut tags = used(config, &mut random);
    let step = 1 << config.max_order;
    let mut blocks: Vec<u32> = (0..config.frames()).step_by(step).collect();
    random.shuffle(&mut blocks);
    let whole = count(&config.free_blocks, config.max_order) as usize;
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
            let wanted = holders(all, order + 1, &config.free_blocks).unwrap_or(all);
            blocks.truncate(wanted as usize);
        }
        blocks = halve(
            &mut tags,
            &blocks,
            order,
            count(&config.free_blocks, order),
            &mut random,
        );
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
