//! Pages that cannot be moved, apart from those that can: blocks that they get, and huge pages that this leaves.

mod support;

use pagelab_addr::Pfn;
use pagelab_events::Control;
use pagelab_os::buddy::{Buddy, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};
use pagelab_os::{Defrag, Grouping, OsConfig, PagePolicy};
use proptest::prelude::*;
use std::ops::Range;
use support::{Machine, MapTable, Placement, config, map};

/// Tags of frames in use: data, by others before, not movable, and a page table.
const DATA: u8 = 1;
const USED: u8 = 4;
const FIXED: u8 = 5;
const TABLE: u8 = 6;

const LARGEST: u32 = 10;

/// The twin: tags of all frames, 0 for a free one, and for each 2 MiB whether they are for what cannot be moved.
struct Twin {
    tags: Vec<u8>,
    fixed: Vec<bool>,
    zones: Vec<Range<u32>>,
}

impl Twin {
    fn is_fixed(&self, pfn: u32) -> bool {
        self.fixed[(pfn / PAGEBLOCK_FRAMES) as usize]
    }

    fn is_free(&self, frames: Range<u32>) -> bool {
        let tags = &self.tags[frames.start as usize..frames.end as usize];
        tags.iter().all(|&tag| tag == 0)
    }

    /// Free blocks of a zone, with their orders: since buddies always merge there is one way to cut it.
    fn cut(&self, zone: &Range<u32>) -> Vec<(u32, u32)> {
        let mut blocks = Vec::new();
        let mut at = zone.start;
        while at < zone.end {
            let fits = |order: &u32| {
                let end = at + (1 << order);
                at.is_multiple_of(1 << order) && end <= zone.end && self.is_free(at..end)
            };
            let order = (0..=LARGEST).rev().find(fits);
            blocks.extend(order.map(|order| (at, order)));
            at += order.map_or(1, |order| 1 << order);
        }
        blocks
    }

    /// True if half of the 2 MiB around a frame is free or of a kind.
    fn suits(&self, zone: &Range<u32>, pfn: u32, fixed: bool) -> bool {
        let start = pfn / PAGEBLOCK_FRAMES * PAGEBLOCK_FRAMES;
        let end = start + PAGEBLOCK_FRAMES;
        let alike = |&&tag: &&u8| tag == 0 || [FIXED, TABLE].contains(&tag) == fixed;
        end <= zone.end
            && self.tags[start as usize..end as usize]
                .iter()
                .filter(alike)
                .count()
                >= 256
    }

    /// Kinds if a block had another one.
    fn with(&self, pfn: u32, order: u32, fixed: bool) -> Vec<bool> {
        let mut kinds = self.fixed.clone();
        let first = (pfn / PAGEBLOCK_FRAMES) as usize;
        let blocks = 1 << order.saturating_sub(PAGEBLOCK_ORDER);
        kinds[first..first + blocks].fill(fixed);
        kinds
    }

    /// Checks where a block was taken, by Linux's rules, and the kinds afterwards.
    fn check_taken(&self, order: u32, fixed: bool, taken: Option<u32>, after: &[bool]) {
        for mixes in [false, true] {
            for zone in self.zones.iter().rev() {
                let (own, other): (Vec<_>, Vec<_>) = self
                    .cut(zone)
                    .into_iter()
                    .filter(|&(_, of)| of >= order)
                    .partition(|&(at, _)| self.is_fixed(at) == fixed);
                // The smallest of its own.
                if let Some(smallest) = own.iter().map(|&(_, of)| of).min() {
                    assert!(own.contains(&(taken.unwrap(), smallest)));
                    assert_eq!(after, self.fixed);
                    return;
                }
                // The largest of the others, if that is 2 MiB at least.
                let largest = other.iter().map(|&(_, of)| of).max().unwrap_or(0);
                if largest >= PAGEBLOCK_ORDER {
                    let taken = taken.unwrap();
                    assert!(other.contains(&(taken, largest)));
                    assert_eq!(after, self.with(taken, largest, fixed));
                    return;
                }
                if !mixes || other.is_empty() {
                    continue;
                }
                self.check_mixed(zone, &other, fixed, taken.unwrap(), after);
                return;
            }
        }
        assert_eq!(taken, None);
        assert_eq!(after, self.fixed);
    }

    /// Checks of a take where less than 2 MiB of others are left. Linux looks at the first block of each list
    /// alone, whichever it is.
    fn check_mixed(
        &self,
        zone: &Range<u32>,
        other: &[(u32, u32)],
        fixed: bool,
        taken: u32,
        after: &[bool],
    ) {
        let least = if fixed { 0 } else { PAGEBLOCK_ORDER / 2 };
        let mut asked = other.iter().filter(|&&(_, of)| of >= least).peekable();
        if after == self.fixed {
            let smallest = other.iter().map(|&(_, of)| of).min().unwrap();
            assert!(other.contains(&(taken, smallest)));
            let all_suit =
                asked.peek().is_some() && asked.all(|&(at, _)| self.suits(zone, at, fixed));
            assert!(!all_suit, "2 MiB could be had as a whole");
        } else {
            assert_eq!(after, self.with(taken, PAGEBLOCK_ORDER, fixed));
            assert!(self.suits(zone, taken, fixed));
            let within = |at: u32| at / PAGEBLOCK_FRAMES == taken / PAGEBLOCK_FRAMES;
            assert!(asked.any(|&(at, _)| within(at)));
            let smallest = other.iter().filter(|&&(at, _)| within(at));
            let smallest = smallest.map(|&(_, of)| of).min().unwrap();
            assert!(other.contains(&(taken, smallest)));
        }
    }

    fn set(&mut self, pfn: u32, order: u32, tag: u8) {
        self.tags[pfn as usize..(pfn + (1 << order)) as usize].fill(tag);
    }

    /// Frees a block. Free neighbours of 2 MiB or more become of its kind.
    fn free(&mut self, pfn: u32, order: u32) {
        let zone = self
            .zones
            .iter()
            .find(|zone| zone.contains(&pfn))
            .unwrap()
            .clone();
        let fixed = self.is_fixed(pfn);
        self.set(pfn, order, 0);
        let (mut at, mut of) = (pfn, order);
        while of < LARGEST {
            let buddy = at ^ (1 << of);
            let end = buddy + (1 << of);
            if end > zone.end || !self.is_free(buddy..end) {
                break;
            }
            if of >= PAGEBLOCK_ORDER {
                self.fixed = self.with(buddy, of, fixed);
            }
            (at, of) = (at & buddy, of + 1);
        }
    }
}

/// A region for what cannot be moved, which ends at a frame: blocks are taken by Contiguitas' rules. The region grows
/// into what is free.
impl Twin {
    /// Free blocks of an order or more on a side of the border, by zone as the side asks them.
    fn on_side(&self, end: u32, fixed: bool, order: u32) -> Vec<Vec<(u32, u32)>> {
        let sides = self.zones.iter().map(|zone| {
            if fixed {
                zone.start..zone.end.min(end)
            } else {
                zone.start.max(end)..zone.end
            }
        });
        let blocks = sides.map(|side| {
            let fits = |&(_, of): &(u32, u32)| of >= order;
            self.cut(&side).into_iter().filter(fits).collect()
        });
        let mut blocks: Vec<Vec<_>> = blocks.collect();
        if !fixed {
            blocks.reverse();
        }
        blocks
    }

    fn check_taken_by_region(&self, end: &mut u32, order: u32, fixed: bool, taken: Option<u32>) {
        let is_one_of = |sides: Vec<Vec<(u32, u32)>>| {
            let first = sides.into_iter().find(|blocks| !blocks.is_empty());
            let Some(blocks) = first else {
                return false;
            };
            let smallest = blocks.iter().map(|&(_, of)| of).min().unwrap();
            assert!(blocks.contains(&(taken.unwrap(), smallest)));
            true
        };
        while !is_one_of(self.on_side(*end, fixed, order)) {
            let above = *end..*end + PAGEBLOCK_FRAMES;
            if fixed && above.end <= self.tags.len() as u32 && self.is_free(above.clone()) {
                *end = above.end;
                continue;
            }
            // Data of more than a page never lie in the region.
            if !(fixed || order == 0) || !is_one_of(self.on_side(*end, !fixed, order)) {
                assert_eq!(taken, None);
            }
            return;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Take { order: u32, fixed: bool },
    Free(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let order = prop_oneof![4 => 0u32..4, 2 => 4u32..9, 1 => 9u32..=LARGEST];
    prop_oneof![
        3 => (order, any::<bool>()).prop_map(|(order, fixed)| Step::Take { order, fixed }),
        2 => any::<usize>().prop_map(Step::Free),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn blocks_are_taken_as_linux_takes_them(
        // By 2 MiB: how many frames are in use, in bursts, and whether they can be moved.
        used in proptest::collection::vec((0u32..500, any::<bool>()), 9),
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut tags = vec![0; 9 * PAGEBLOCK_FRAMES as usize + 100];
        for (block, &(used, fixed)) in tags.chunks_mut(PAGEBLOCK_FRAMES as usize).zip(&used) {
            let frames = block.iter_mut().step_by(3).take(used as usize);
            frames.for_each(|tag| *tag = if fixed { FIXED } else { USED });
        }
        let end = tags.len() as u32;
        let fixed = tags.chunks(PAGEBLOCK_FRAMES as usize).map(|block| block.contains(&FIXED));
        let mut twin = Twin {
            fixed: fixed.collect(),
            tags: tags.clone(),
            zones: vec![0..2048, 2048..end],
        };
        let mut buddy = Buddy::new(tags, &[0, 2048], LARGEST);
        buddy.group(Grouping::Mobility);
        let kinds = |buddy: &Buddy| -> Vec<bool> {
            let blocks = (0..end).step_by(PAGEBLOCK_FRAMES as usize);
            blocks.map(|pfn| buddy.is_for_unmovable(Pfn(pfn))).collect()
        };
        prop_assert_eq!(&kinds(&buddy), &twin.fixed);
        let mut held = Vec::new();
        for step in steps {
            match step {
                Step::Take { order, fixed } => {
                    let tag = if fixed { TABLE } else { DATA };
                    let taken = buddy.allocate(order, tag).map(|pfn| pfn.0);
                    let after = kinds(&buddy);
                    twin.check_taken(order, fixed, taken, &after);
                    twin.fixed = after;
                    if let Some(pfn) = taken {
                        twin.set(pfn, order, tag);
                        held.push((pfn, order));
                    }
                }
                Step::Free(pick) if !held.is_empty() => {
                    let (pfn, order) = held.swap_remove(pick % held.len());
                    buddy.free(Pfn(pfn), order);
                    twin.free(pfn, order);
                }
                Step::Free(_) => {}
            }
            prop_assert_eq!(&kinds(&buddy), &twin.fixed);
            for pfn in 0..end {
                prop_assert_eq!(buddy.tag(Pfn(pfn)), twin.tags[pfn as usize]);
            }
            let mut blocks = vec![0; LARGEST as usize + 1];
            for (_, order) in twin.zones.iter().flat_map(|zone| twin.cut(zone)) {
                blocks[order as usize] += 1;
            }
            prop_assert_eq!(buddy.free_blocks(), blocks);
        }
    }

    #[test]
    fn blocks_are_taken_from_a_region_and_from_above_it(
        used in proptest::collection::vec((0u32..500, 0u32..4), 9),
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut tags = vec![0; 9 * PAGEBLOCK_FRAMES as usize + 100];
        for (block, &(used, kind)) in tags.chunks_mut(PAGEBLOCK_FRAMES as usize).zip(&used) {
            let frames = block.iter_mut().step_by(3).take(used as usize * usize::from(kind > 1));
            frames.for_each(|tag| *tag = USED);
        }
        tags[700] = FIXED;
        let mut twin = Twin { fixed: Vec::new(), tags: tags.clone(), zones: vec![0..2048, 2048..tags.len() as u32] };
        let (mut buddy, mut end) = (Buddy::new(tags, &[0, 2048], LARGEST), 2 * PAGEBLOCK_FRAMES);
        buddy.group(Grouping::Region);
        let mut held = Vec::new();
        for step in steps {
            match step {
                Step::Take { order, fixed } => {
                    let tag = if fixed { TABLE } else { DATA };
                    let taken = buddy.allocate(order, tag).map(|pfn| pfn.0);
                    twin.check_taken_by_region(&mut end, order, fixed, taken);
                    if let Some(pfn) = taken {
                        twin.set(pfn, order, tag);
                        held.push((pfn, order));
                    }
                }
                Step::Free(pick) if !held.is_empty() => {
                    let (pfn, order) = held.swap_remove(pick % held.len());
                    buddy.free(Pfn(pfn), order);
                    twin.set(pfn, order, 0);
                }
                Step::Free(_) => {}
            }
            for pfn in 0..twin.tags.len() as u32 {
                prop_assert_eq!(buddy.tag(Pfn(pfn)), twin.tags[pfn as usize]);
                prop_assert_eq!(buddy.is_for_unmovable(Pfn(pfn)), pfn < end);
            }
            let mut blocks = vec![0; LARGEST as usize + 1];
            let sides = [true, false].map(|fixed| twin.on_side(end, fixed, 0));
            for (_, order) in sides.into_iter().flatten().flatten() {
                blocks[order as usize] += 1;
            }
            prop_assert_eq!(buddy.free_blocks(), blocks);
        }
    }
}

/// Page tables that find no room in the region have it grow by a block, whose pages are moved; when they go it shrinks.
#[test]
fn a_region_grows_into_data_and_shrinks_when_it_is_free() {
    let config = OsConfig {
        grouping: Grouping::Region,
        memory_bytes: 64 << 20,
        ..config(PagePolicy::THP_MADVISE, 0.0)
    };
    let mut machine = Machine::new(config, MapTable::new(Placement::Anywhere));
    let in_region = |machine: &Machine<MapTable>| {
        let tables = (0..machine.os.frames().buddy().count()).map(Pfn);
        let mut tables = tables.filter(|&pfn| machine.os.frames().buddy().tag(pfn) == TABLE);
        tables.all(|pfn| machine.os.frames().buddy().is_for_unmovable(pfn))
    };
    // Data in nearly all of memory.
    map(&mut machine, 0, 0..14_600);
    support::advise_of(&mut machine, 0, 0..1024, pagelab_events::Advice::HugePage);
    for vpn in 0..14_600 {
        machine.store(0, vpn, vpn + 1).unwrap();
    }
    // Page tables of other programs, more than a block of them.
    for process in 1..4 {
        map(&mut machine, process, 0..200 * 512);
        for region in 0..200 {
            machine.store(process, region * 512, region + 1).unwrap();
            assert!(in_region(&machine), "{process} {region}");
        }
    }
    machine.check();
    machine.check_contents();
    let counts =
        |machine: &Machine<MapTable>| machine.os.statistics(&machine.table).grouping.unwrap();
    let grown = counts(&machine);
    assert!(grown.unmovable_blocks >= 2 && grown.stolen == 0);
    assert!(grown.pages_moved > 0);
    for process in 1..4 {
        machine
            .control(process, Control::Exit { status: 0 })
            .unwrap();
    }
    assert!(counts(&machine).unmovable_blocks < grown.unmovable_blocks);
    machine.check();
    machine.check_contents();
    machine.check_end(0..1);
}

/// Page tables among data keep blocks from being emptied, unless they lie together.
#[test]
fn page_tables_that_lie_together_leave_huge_pages() {
    let huge_pages = |grouping| {
        let config = OsConfig {
            grouping,
            defrag: Defrag::Always,
            memory_bytes: 64 << 20,
            ..config(PagePolicy::THP_MADVISE, 0.0)
        };
        let mut machine = Machine::new(config, MapTable::new(Placement::Anywhere));
        // A program with little in each region, which needs a page table for it, while another fills memory.
        map(&mut machine, 0, 0..40 * 512);
        map(&mut machine, 1, 0..40 * 300);
        for region in 0..40 {
            machine.store(0, region * 512, region + 1).unwrap();
            for vpn in region * 300..region * 300 + 300 {
                machine.store(1, vpn, vpn + 1).unwrap();
            }
        }
        machine.control(1, Control::Exit { status: 0 }).unwrap();
        map(&mut machine, 2, 0..32 * 512);
        support::advise_of(
            &mut machine,
            2,
            0..32 * 512,
            pagelab_events::Advice::HugePage,
        );
        for region in 0..20 {
            machine.store(2, region * 512, region + 1).unwrap();
        }
        machine.check();
        machine.check_contents();
        machine.os.statistics(&machine.table).anonymous.large
    };
    assert_eq!(huge_pages(Grouping::Mobility), 20);
    assert!(huge_pages(Grouping::Off) < 20);
}
