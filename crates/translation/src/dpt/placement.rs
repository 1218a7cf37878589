//! Placement of a page of PTEs: the hash, strided open addressing, fragmentation-aware allocation
//! and, where those fail, the victim frames they met (DPT paper, sections V and VI, figure 12).

use super::config::{DptConfig, Prefer};
use super::counters::DptCounters;
use super::metadata::Metadata;
use crate::city::city_hash64;
use crate::{FrameUse, Frames, Work};
use pagelab_addr::{PageSize, Pfn};

/// A frame that equation 1 can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reachable {
    pub(super) frame: Pfn,
    pub(super) metadata: Metadata,
}

/// Frames that a search met when it found nothing fit.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    /// The first free frame in a block that is not fragmented.
    unfragmented: Option<Reachable>,
    /// Frames of movable data.
    movable: Vec<(Reachable, PageSize)>,
}

/// The frames where the page of PTEs for a tag may lie, in the order in which they are tried:
/// the one that the hash names, then `max_soa_step` steps each of the stride of the page that
/// occupies that one and of the larger strides.
fn sequence(
    base: u32,
    first_stride: PageSize,
    max_step: u32,
    frames: u32,
) -> impl Iterator<Item = Reachable> {
    let at = move |stride, step| {
        let metadata = Metadata::new(stride, step);
        let frame = Pfn(metadata.frame(base, frames).unwrap_or(base));
        Reachable { frame, metadata }
    };
    let strides = PageSize::ALL
        .into_iter()
        .filter(move |&s| s >= first_stride);
    let further = strides.flat_map(move |stride| (1..=max_step).map(move |n| at(stride, n)));
    std::iter::once(at(PageSize::Base4K, 0)).chain(further)
}

/// The frame that the hash names.
pub(crate) fn base_frame(tag: u64, seed: u64, frames: u32) -> u32 {
    (city_hash64(tag, seed) % u64::from(frames)) as u32
}

/// Looks for a free frame for the page of PTEs of a tag, and with FAP for one in a fragmented
/// block; otherwise says what might be had by other means.
pub(super) fn search<F: Frames>(
    config: &DptConfig,
    frames: &F,
    (tag, seed): (u64, u64),
    counters: &mut DptCounters,
    work: &mut Work,
) -> Result<Reachable, Candidates> {
    let base = base_frame(tag, seed, frames.count());
    let first_stride = match frames.usage(Pfn(base)) {
        FrameUse::Movable(size) | FrameUse::Unmovable(size) => {
            counters.collisions_with_data += 1;
            size
        }
        FrameUse::PageTable => {
            counters.collisions_with_tables += 1;
            PageSize::Base4K
        }
        // Refused only by FAP, which refuses the whole block.
        FrameUse::Free => PageSize::Large2M,
    };
    let mut candidates = Candidates::default();
    for reachable in sequence(base, first_stride, config.max_soa_step, frames.count()) {
        work.probes += 1;
        match frames.usage(reachable.frame) {
            FrameUse::Free => {
                if !config.fap || frames.in_fragmented_block(reachable.frame) {
                    return Ok(reachable);
                }
                candidates.unfragmented.get_or_insert(reachable);
            }
            FrameUse::Movable(size) => candidates.movable.push((reachable, size)),
            FrameUse::Unmovable(_) | FrameUse::PageTable => {}
        }
    }
    Err(candidates)
}

/// Takes one of the frames that a failed search met: a free one, or one from which data is moved
/// away.
pub(super) fn take_victim<F: Frames>(
    config: &DptConfig,
    frames: &mut F,
    candidates: &Candidates,
    counters: &mut DptCounters,
    work: &mut Work,
) -> Option<Reachable> {
    match config.prefer {
        Prefer::Performance => split_block(frames, candidates, counters)
            .or_else(|| displace(config, frames, candidates, counters, work)),
        Prefer::Fragmentation => displace(config, frames, candidates, counters, work)
            .or_else(|| split_block(frames, candidates, counters)),
    }
}

fn split_block<F: Frames>(
    frames: &mut F,
    candidates: &Candidates,
    counters: &mut DptCounters,
) -> Option<Reachable> {
    let reachable = candidates.unfragmented?;
    if !frames.claim_table(reachable.frame) {
        return None;
    }
    counters.fap_blocks_broken += 1;
    Some(reachable)
}

/// CPD's tries: nobody can have more pages moved for a page of PTEs.
const MOST_MOVES: usize = 4;

/// CPD: smaller victims first, among equals in the order of the sequence.
fn displace<F: Frames>(
    config: &DptConfig,
    frames: &mut F,
    candidates: &Candidates,
    counters: &mut DptCounters,
    work: &mut Work,
) -> Option<Reachable> {
    if !config.cpd {
        return None;
    }
    let of_size = |size| candidates.movable.iter().filter(move |(_, s)| *s == size);
    for (reachable, size) in PageSize::ALL.into_iter().flat_map(of_size).take(MOST_MOVES) {
        if let Some(displaced) = frames.displace(reachable.frame) {
            counters.cpd_moves[*size as usize] += 1;
            work.displaced.push(displaced);
            return Some(*reachable);
        }
    }
    None
}
