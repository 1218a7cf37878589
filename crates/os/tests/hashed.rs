//! Pages hashed to frames, in whole memories.

mod support;

use pagelab_addr::{PAGE_BYTES, Pfn};
use pagelab_events::{Backing, Control};
use pagelab_os::{Os, OsConfig, OsError, PagePolicy, Placement};
use pagelab_translation::{FrameUse, Frames, Ideal, PageTable, Radix, RadixConfig, Tiers};
use std::collections::HashSet;
use support::{Machine, READ_WRITE, config};

fn touch<T: PageTable>(machine: &mut Machine<T>, vpn: u64) -> Result<(), OsError> {
    let page = machine.page(0, vpn);
    machine.fault(page, true)
}

fn map<T: PageTable>(machine: &mut Machine<T>, addr: u64, len: u64) {
    let event = Control::Map {
        addr,
        len,
        prot: READ_WRITE,
        backing: Backing::Anonymous,
        populate: false,
    };
    machine.control(0, event).unwrap();
}

fn hashed(config: OsConfig) -> Os {
    Os::with_placement(config, Placement::Hashed, 7).unwrap()
}

/// Table 3 of the Mosaic paper: no conflict before 98 % of the memory is in use, whatever was in
/// use beforehand and although page tables lie in between.
#[test]
fn no_conflict_below_98_percent() {
    for utilisation in [0.0, 0.7, 0.9] {
        let config = OsConfig {
            memory_bytes: 512 << 20,
            utilisation,
            ..OsConfig::default()
        };
        let table = Radix::new(&RadixConfig::default(), 1).unwrap();
        let mut machine = Machine::with_os(hashed(config), table);
        for vpn in 0.. {
            touch(&mut machine, vpn).unwrap();
            let hashed = machine.os.statistics(&machine.table).hashed.unwrap();
            if let Some(used) = hashed.used_at_first_conflict {
                assert!(used > 0.975, "the first conflict at {used}");
                break;
            }
            let page = machine.page(0, vpn);
            let found = machine.table.lookup(page).unwrap();
            let iceberg = machine.os.frames().iceberg().unwrap();
            assert!(iceberg.compress(page.id, found.pfn).is_some());
        }
    }
}

/// Past the first conflict pages go wherever there is room, up to the last frame.
#[test]
fn every_frame_can_be_used() {
    let config = OsConfig {
        memory_bytes: 64 << 20,
        ..OsConfig::default()
    };
    let mut machine = Machine::with_os(hashed(config), Ideal::new());
    let frames = u64::from(machine.os.frames().count());
    for vpn in 0..frames {
        touch(&mut machine, vpn).unwrap();
    }
    let full = touch(&mut machine, frames);
    assert!(matches!(full, Err(OsError::OutOfMemory { .. })));
    let hashed = machine.os.statistics(&machine.table).hashed.unwrap();
    assert_eq!(hashed.front + hashed.back + hashed.conflicts, frames);
    assert!(hashed.conflicts > 0);
}

/// Large pages come from the memory that is not hashed, so that 4 KiB pages do not break it up.
#[test]
fn large_pages_find_blocks_beside_hashed_pages() {
    let mut machine = Machine::with_os(
        hashed(OsConfig {
            memory_bytes: 256 << 20,
            unhashed_share: 0.5,
            ..config(PagePolicy::THP, 0.5)
        }),
        Ideal::new(),
    );
    let bytes = 40 << 20;
    map(&mut machine, 0, bytes);
    for place in 0..64u64 {
        let start = (1 << 30) + place * (4 << 20);
        map(&mut machine, start, PAGE_BYTES);
        touch(&mut machine, start / PAGE_BYTES).unwrap();
    }
    for region in 0..20 {
        touch(&mut machine, region * 512).unwrap();
    }
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(statistics.anonymous.large, 20);
    assert_eq!(statistics.anonymous.base, 64);
    assert_eq!(statistics.hashed.unwrap().conflicts, 0);
}

/// A page is where the first function says whose frame was free, a page of PTEs likewise, and the
/// rest anywhere; as lists have it that begin with what is in use when the machine starts.
#[test]
fn pages_are_where_the_first_function_with_a_free_frame_says() {
    const FUNCTIONS: u32 = 3;
    let config = OsConfig {
        memory_bytes: 64 << 20,
        utilisation: 0.5,
        ..OsConfig::default()
    };
    let placement = Placement::Tiered {
        functions: FUNCTIONS,
    };
    let os = Os::with_placement(config, placement, 7).unwrap();
    let frames = os.frames().count();
    let data = os.frames().tiers().unwrap();
    let tables = Tiers::of_tables(frames, FUNCTIONS).unwrap();
    let mut table = Radix::new(&RadixConfig::default(), 1).unwrap();
    table.hash_leaves(tables);
    let in_use = |os: &Os| -> HashSet<u32> {
        let used = |&pfn: &u32| os.frames().usage(Pfn(pfn)) != FrameUse::Free;
        (0..frames).filter(used).collect()
    };
    let mut machine = Machine::with_os(os, table);
    let mut elsewhere = 0;
    // 40 pages in each of 64 pages of PTEs.
    for number in 0..64 * 40u64 {
        let page = machine.page(0, number % 64 * 512 + number / 64);
        let mut before = in_use(&machine.os);
        let new = number < 64;
        touch(&mut machine, page.vpn.0).unwrap();
        let found = machine.table.lookup(page).unwrap();
        let first = |tiers: Tiers, key, used: &HashSet<u32>| {
            let mut all = (0..FUNCTIONS).map(|function| tiers.frame(key, function));
            all.find(|pfn| !used.contains(&pfn.0))
        };
        match first(data, u64::from(page.id.0), &before) {
            Some(pfn) => assert_eq!(found.pfn, pfn),
            None => elsewhere += 1,
        }
        before.insert(found.pfn.0);
        if new && let Some(pfn) = first(tables, page.id.region() as u64, &before) {
            assert!(!before.contains(&pfn.0) && in_use(&machine.os).contains(&pfn.0));
        }
    }
    // The cube of the share in use, which grows from 0.50 to 0.66: 514 on average.
    assert!((430..600).contains(&elsewhere), "{elsewhere}");
    let hashed = machine.os.statistics(&machine.table).hashed.unwrap();
    assert_eq!(hashed.front + hashed.back, 64 * 40 - elsewhere);
    assert_eq!(hashed.conflicts, elsewhere);
}
