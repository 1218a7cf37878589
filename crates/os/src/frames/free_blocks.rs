//! Numbers of free blocks of each order, as an allocator that has run for a while has them: whether they
//! can be, and in how much memory they lie.

use crate::OsConfigError;
use crate::frames::buddy::PAGEBLOCK_ORDER;
use pagelab_addr::PAGE_SHIFT;

/// Free share of the blocks that hold smaller free ones, in percent, whatever their size: free memory is in heaps at
/// every scale. On a guest of 24 GB that had built kernels for hours it was 40 to 52 % at each order from 1 to 9
/// (`/proc/kpageflags`), on another 41 % at order 9.
const FREE_PERCENT: u64 = 45;

/// Free frames of `blocks`, the number of free blocks of each order.
pub(crate) fn free_frames(blocks: &[u32]) -> u64 {
    let orders = blocks.iter().enumerate();
    orders
        .map(|(order, &count)| u64::from(count) << order)
        .sum()
}

/// Number of 2 MiB blocks that share the free ones of `blocks` that are smaller than they are, in a memory of so many
/// frames.
///
/// # Errors
/// [`OsConfigError`] when the memory cannot have such free blocks.
pub(crate) fn mixed_blocks(
    blocks: &[u32],
    max_order: u32,
    frames: u32,
) -> Result<u32, OsConfigError> {
    let refuse = |reason: String| {
        let key = "free_blocks";
        Err(OsConfigError { key, reason })
    };
    if blocks.len() > max_order as usize + 1 {
        return refuse(format!(
            "{} orders, but the largest order is {max_order}",
            blocks.len()
        ));
    }
    let too_many = |order: u32| {
        format!(
            "{} free blocks of order {order} and their neighbours do not fit into {} bytes",
            count(blocks, order),
            u64::from(frames) << PAGE_SHIFT
        )
    };
    // Blocks of an order that are not free: the halves of those of the order above, of which one
    // half at most is free.
    let mut left = u64::from(frames >> max_order);
    for order in (PAGEBLOCK_ORDER..=max_order).rev() {
        let free = u64::from(count(blocks, order));
        if free > left {
            return refuse(too_many(order));
        }
        let whole = if order < max_order { 2 * left } else { left };
        left = whole - free;
    }
    match holders(left, PAGEBLOCK_ORDER, blocks) {
        Ok(mixed) => Ok(mixed as u32),
        Err(order) => refuse(too_many(order)),
    }
}

/// Number of blocks of 2^`order` frames, of `blocks` that are not free, that hold all smaller free
/// ones; an order of which they cannot as the error.
pub(crate) fn holders(blocks: u64, order: u32, free: &[u32]) -> Result<u64, u32> {
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

/// Free blocks of an order.
pub(crate) fn count(blocks: &[u32], order: u32) -> u32 {
    blocks.get(order as usize).copied().unwrap_or(0)
}
