//! A guest of a few lines, whose memory is a map from addresses to words.

mod hashed;
mod lists;
mod reports;

use crate::{EntryRead, GuestWalk, Hashed, Judged, Purpose, Range, WalkLines, judge};
use pagelab_addr::PageSize;
use proptest::prelude::*;
use std::collections::HashMap;

const PRESENT: u64 = 1;
const LARGE: u64 = 0x80;

/// Page tables as the architecture's manual has them.
struct Guest {
    memory: HashMap<u64, u64>,
    levels: u32,
    next: u64,
}

impl Guest {
    fn new(levels: u32) -> Guest {
        Guest {
            memory: HashMap::new(),
            levels,
            next: 0x10_0000,
        }
    }

    fn frame(&mut self) -> u64 {
        // Not one after the other, so that no table is where another one would be looked for.
        self.next += 0x3000;
        self.next
    }

    fn entry(table: u64, addr: u64, level: u32) -> u64 {
        table + (addr >> (12 + 9 * (level - 1)) & 0x1ff) * 8
    }

    /// Maps the page at an address; `level` 1 is one of 4 KiB.
    fn map(&mut self, root: u64, addr: u64, level: u32, paddr: u64) {
        let mut table = root;
        for at in (level + 1..=self.levels).rev() {
            let entry = Self::entry(table, addr, at);
            let value = self.memory.get(&entry).copied().unwrap_or(0);
            table = if value & PRESENT != 0 {
                value & !0xfff
            } else {
                let new = self.frame();
                self.memory.insert(entry, new | PRESENT);
                new
            };
        }
        let large = if level > 1 { LARGE } else { 0 };
        let entry = Self::entry(table, addr, level);
        self.memory.insert(entry, paddr | large | PRESENT);
    }

    fn walk(&self, root: u64, addr: u64) -> GuestWalk {
        let (mut table, mut reads, mut found) = (root, Vec::new(), None);
        for level in (1..=self.levels).rev() {
            let entry = Self::entry(table, addr, level);
            let value = self.memory.get(&entry).copied().unwrap_or(0);
            reads.push(EntryRead { entry, value });
            if value & PRESENT == 0 {
                break;
            }
            if level == 1 || value & LARGE != 0 {
                let size = PageSize::ALL[level as usize - 1];
                let inside = addr & (size.bytes() - 1);
                found = Some(((value & !0xfff) | inside, size));
                break;
            }
            table = value & !0xfff;
        }
        GuestWalk {
            purpose: Purpose::Load,
            addr,
            root,
            found,
            hashed: None,
            reads,
        }
    }
}

fn judged(walks: &[GuestWalk]) -> Judged {
    judge(walks.iter().map(|walk| Ok((0, walk.clone())))).unwrap()
}

fn judged_lines(text: &str) -> Judged {
    judge(WalkLines::new(text.as_bytes())).unwrap()
}

/// Pages of all sizes, of programs and of the kernel, in two spaces that have the kernel's tables
/// in common.
fn walks_of(levels: u32) -> Vec<GuestWalk> {
    let mut guest = Guest::new(levels);
    let (one, two) = (0x1000, 0x2000);
    let kernel = 0xffff_ffff_8000_0000;
    guest.map(one, kernel, 2, 0x20_0000);
    guest.map(one, kernel + (3 << 20), 1, 0x5000);
    // The root's upper entries are the same in all spaces.
    for (entry, value) in guest.memory.clone() {
        if entry & !0xfff == one {
            guest.memory.insert(entry + two - one, value);
        }
    }
    for root in [one, two] {
        for page in 0..600 {
            guest.map(
                root,
                0x7fff_0000_0000 + page * 0x1000,
                1,
                0x100_0000 + page * 0x2000,
            );
        }
        guest.map(root, 0x4000_0000, 3, 0x8000_0000);
    }
    let mut walks = Vec::new();
    for round in 0..2 {
        for root in [one, two] {
            for page in (0..600).step_by(7) {
                walks.push(guest.walk(root, 0x7fff_0000_0000 + page * 0x1000 + 8 * round));
            }
            walks.push(guest.walk(root, kernel + 0x1234));
            walks.push(guest.walk(root, kernel + (3 << 20) + 0x10));
            walks.push(guest.walk(root, 0x4123_4567));
        }
    }
    walks
}

#[test]
fn the_simulator_reads_the_entries_that_the_guest_read() {
    for levels in [4, 5] {
        let walks = walks_of(levels);
        let judged = judged(&walks);
        assert_eq!(judged.different, 0, "{:?}", judged.differences);
        assert_eq!(judged.levels, levels);
        let counted: u64 = judged.walks.values().sum();
        assert_eq!((counted, judged.moved), (walks.len() as u64, 0));
        let whole = u64::from(levels);
        let kinds: Vec<u64> = judged.walks.keys().copied().collect();
        assert_eq!(kinds, [whole - 2, whole - 1, whole]);
    }
}

#[test]
fn a_walk_that_reads_another_entry_is_told() {
    for at in 0..4 {
        let mut walks = walks_of(4);
        // A later one, of a page whose tables are all known.
        walks[20].reads[at].entry ^= 8;
        let judged = judged(&walks);
        assert_eq!((judged.different, judged.moved), (1, 0), "read {at}");
    }
    let mut walks = walks_of(4);
    let extra = walks[20].reads[0];
    walks[20].reads.insert(0, extra);
    assert!(judged(&walks).different > 0);
}

#[test]
fn tables_that_the_guest_has_freed_and_made_anew_are_followed() {
    let (mut guest, root) = (Guest::new(4), 0x1000);
    let at = |page: u64| 0x10_0000_0000 + page * 0x1000;
    let mut walks = Vec::new();
    for page in 0..4 {
        guest.map(root, at(page), 1, 0x80_0000 + page * 0x1000);
        walks.push(guest.walk(root, at(page)));
    }
    // munmap() of all: the page of PTEs is freed, and another one takes its place.
    let pmd = walks[0].reads[2].entry;
    guest.memory.insert(pmd, 0);
    walks.push(guest.walk(root, at(0)));
    for page in 0..4 {
        guest.map(root, at(page), 1, 0x90_0000 + page * 0x1000);
        walks.push(guest.walk(root, at(page)));
    }
    // A large page in its place, and small ones again.
    guest.memory.insert(pmd, 0x4000_0000 | LARGE | PRESENT);
    walks.push(guest.walk(root, at(3)));
    guest.memory.insert(pmd, 0);
    guest.map(root, at(2), 1, 0xa0_0000);
    walks.push(guest.walk(root, at(2)));
    let judged = judged(&walks);
    assert_eq!(judged.different, 0, "{:?}", judged.differences);
    assert_eq!(judged.faults, 1);
    assert!(judged.moved >= 1);
}

/// Walks that no guest makes: few addresses, so that they meet, with any sizes and reads.
fn any_walk() -> impl Strategy<Value = GuestWalk> {
    let read = (0u64..6, 0u64..16, any::<u8>()).prop_map(|(table, at, value)| EntryRead {
        entry: table << 12 | at << 3,
        value: u64::from(value) << 10 | u64::from(value & 1),
    });
    let addr = (0u64..4, 0u64..4, 0u64..4).prop_map(|(a, b, c)| a << 30 | b << 21 | c << 12);
    let found = prop::option::of((0u64..8, prop::sample::select(&PageSize::ALL[..])));
    let hashed = prop::option::weighted(0.3, (0u64..3, prop::option::of(any::<u8>())));
    let reads = prop::collection::vec(read, 0..7);
    (addr, any::<bool>(), found, hashed, reads).prop_map(|(addr, high, found, hashed, reads)| {
        GuestWalk {
            purpose: Purpose::Load,
            addr: if high { addr | 0xffff_8000 << 32 } else { addr },
            root: reads.first().map_or(0, |read| read.entry & !0xfff),
            found: found.map(|(frame, size)| (frame << 30 | addr & (size.bytes() - 1), size)),
            hashed: hashed.map(|(id, metadata)| Hashed {
                key: id,
                ranges: vec![Range {
                    start: 0,
                    frames: 64,
                }],
                metadata,
            }),
            reads,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a list says, comparing it ends, and with a verdict or an error.
    #[test]
    fn any_list_is_judged(walks in prop::collection::vec(any_walk(), 0..60)) {
        let found = walks.iter().filter(|walk| walk.found.is_some()).count() as u64;
        if let Ok(judged) = judge(walks.into_iter().map(|walk| Ok((0, walk)))) {
            let trees: u64 = judged.walks.values().sum();
            let hashed: u64 = judged.hashed.values().sum();
            prop_assert_eq!(trees + hashed, found);
            prop_assert!(judged.different <= found);
        }
    }
}
