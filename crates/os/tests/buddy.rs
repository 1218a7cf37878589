//! The buddy allocator against a set of free frames.

use pagelab_addr::Pfn;
use pagelab_os::buddy::{Buddy, PAGEBLOCK_FRAMES};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;

const USED: u8 = 1;

/// A buddy allocator worked out from the set of free frames alone.
struct Naive {
    free: BTreeSet<u32>,
    zones: Vec<Range<u32>>,
    max_order: u32,
}

impl Naive {
    fn is_free(&self, frames: Range<u32>) -> bool {
        self.free.range(frames.clone()).count() == frames.len()
    }

    /// True if a zone has an aligned run of free frames.
    fn has(&self, zone: &Range<u32>, order: u32) -> bool {
        let length = 1 << order;
        let starts = (zone.start.next_multiple_of(length)..zone.end).step_by(length as usize);
        starts
            .filter(|start| start + length <= zone.end)
            .any(|start| self.is_free(start..start + length))
    }

    /// Free blocks of each order: since buddies always merge there is only one way to cut a zone.
    fn blocks(&self) -> Vec<u32> {
        let mut counts = vec![0; self.max_order as usize + 1];
        for zone in &self.zones {
            let mut at = zone.start;
            while at < zone.end {
                let fits = |order: &u32| {
                    let length = 1 << order;
                    at.is_multiple_of(length)
                        && at + length <= zone.end
                        && self.is_free(at..at + length)
                };
                match (0..=self.max_order).rev().find(fits) {
                    Some(order) => {
                        counts[order as usize] += 1;
                        at += 1 << order;
                    }
                    None => at += 1,
                }
            }
        }
        counts
    }

    fn pageblocks(&self, frames: u32) -> u32 {
        let starts = (0..frames).step_by(PAGEBLOCK_FRAMES as usize);
        starts
            .filter(|start| start + PAGEBLOCK_FRAMES <= frames)
            .filter(|&start| self.is_free(start..start + PAGEBLOCK_FRAMES))
            .count() as u32
    }
}

fn check(buddy: &Buddy, naive: &Naive) {
    assert_eq!(buddy.free_frames() as usize, naive.free.len());
    assert_eq!(buddy.free_blocks(), naive.blocks());
    assert_eq!(buddy.free_pageblocks(), naive.pageblocks(buddy.count()));
    for pfn in 0..buddy.count() {
        assert_eq!(buddy.is_free(Pfn(pfn)), naive.free.contains(&pfn), "{pfn}");
    }
    for start in (0..buddy.count()).step_by(PAGEBLOCK_FRAMES as usize) {
        let block = start..(start + PAGEBLOCK_FRAMES).min(buddy.count());
        let free = naive.free.range(block).count() as u32;
        assert_eq!(buddy.used_in_pageblock(Pfn(start)), PAGEBLOCK_FRAMES - free);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u32),
    Free(usize),
    Claim(u32),
}

fn step(max_order: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..=max_order + 2).prop_map(Step::Allocate),
        3 => (0..3u32).prop_map(Step::Allocate),
        4 => any::<usize>().prop_map(Step::Free),
        3 => any::<u32>().prop_map(Step::Claim),
    ]
}

fn cases() -> impl Strategy<Value = (u32, Vec<u32>, u32, Vec<bool>, Vec<Step>)> {
    // The last zone, and the memory, may end anywhere.
    (0u32..11, 0u32..3000).prop_flat_map(|(max_order, tail)| {
        let block = 1u32 << max_order;
        let starts = vec![0, block, 5 * block];
        let frames = 5 * block + tail.max(1);
        (
            Just(max_order),
            Just(starts),
            Just(frames),
            proptest::collection::vec(any::<bool>(), 0..64),
            proptest::collection::vec(step(max_order), 1..150),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn behaves_as_a_set_of_free_frames(
        (max_order, starts, frames, used, steps) in cases()
    ) {
        // Bursts of frames in use from the beginning.
        let tags: Vec<u8> = (0..frames)
            .map(|pfn| u8::from(used.get(pfn as usize / 7 % 64).copied().unwrap_or(false)))
            .collect();
        let ends = starts[1..].iter().copied().chain([frames]);
        let mut naive = Naive {
            free: (0..frames).filter(|&pfn| tags[pfn as usize] == 0).collect(),
            zones: starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect(),
            max_order,
        };
        let mut buddy = Buddy::new(tags, &starts, max_order);
        check(&buddy, &naive);
        let mut held: Vec<(u32, u32)> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate(order) => {
                    let zone = naive.zones.iter().rev().find(|zone| naive.has(zone, order));
                    let taken = buddy.allocate(order, USED);
                    prop_assert_eq!(taken.is_some(), zone.is_some());
                    if let (Some(Pfn(pfn)), Some(zone)) = (taken, zone) {
                        let block = pfn..pfn + (1 << order);
                        prop_assert!(pfn.is_multiple_of(1 << order));
                        prop_assert!(zone.start <= pfn && block.end <= zone.end);
                        for pfn in block {
                            prop_assert!(naive.free.remove(&pfn), "{} was in use", pfn);
                        }
                        held.push((pfn, order));
                    }
                }
                Step::Free(pick) if !held.is_empty() => {
                    let (pfn, order) = held.swap_remove(pick % held.len());
                    buddy.free(Pfn(pfn), order);
                    naive.free.extend(pfn..pfn + (1 << order));
                }
                Step::Free(_) => {}
                Step::Claim(pick) => {
                    let pfn = pick % frames;
                    prop_assert_eq!(buddy.claim(Pfn(pfn), USED), naive.free.remove(&pfn));
                    if held.iter().all(|&(start, order)| !(start..start + (1 << order)).contains(&pfn)) {
                        // Claimed now, or in use from the beginning: either way ours to free.
                        held.push((pfn, 0));
                    }
                }
            }
            check(&buddy, &naive);
        }
    }
}

#[test]
fn runs_of_allocations_ascend() {
    let mut buddy = Buddy::new(vec![0; 4096], &[0], 10);
    let frames: Vec<u32> = (0..4096)
        .map_while(|_| buddy.allocate(0, USED))
        .map(|pfn| pfn.0)
        .collect();
    assert_eq!(frames, (0..4096).collect::<Vec<_>>());
    assert_eq!(buddy.allocate(0, USED), None);
}

#[test]
fn a_gigabyte_is_found_among_free_neighbours() {
    let gib = 1 << 18;
    let mut tags = vec![0; 3 * gib];
    tags[5] = USED;
    let mut buddy = Buddy::new(tags, &[0, 1024], 10);
    assert_eq!(buddy.allocate(18, USED), Some(Pfn(gib as u32)));
    assert_eq!(buddy.allocate(18, USED), Some(Pfn(2 * gib as u32)));
    assert_eq!(buddy.allocate(18, USED), None);
    buddy.free(Pfn(5), 0);
    // The first GiB is all free now, but lies in two zones.
    assert_eq!(buddy.allocate(18, USED), None);
    buddy.free(Pfn(gib as u32), 18);
    assert_eq!(buddy.free_frames() as usize, 2 * gib);
    assert_eq!(buddy.unusable_free_space_index(), 0.0);
}

#[test]
fn an_order_beyond_32_bits_is_not_there() {
    let mut buddy = Buddy::new(vec![0; 1024], &[0], 10);
    assert_eq!(buddy.allocate(40, USED), None);
}

#[test]
fn the_index_is_gormans() {
    // One of 4 blocks is full, one has 12 free frames, two are free: 12 of 1036 are unusable.
    let mut tags = vec![0; 2048];
    tags[..1012].fill(USED);
    let buddy = Buddy::new(tags, &[0], 10);
    let expected = 12.0 / 1036.0;
    assert!((buddy.unusable_free_space_index() - expected).abs() < 1e-12);
}
