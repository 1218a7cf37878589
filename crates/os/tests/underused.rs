//! Pages of 2 MiB that are mostly zeros: which are split when memory is short, and what is left of them.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Advice, Control, Touch};
use pagelab_os::{
    KhugepagedConfig, OsConfig, OsError, PagePolicy, ReclaimConfig, ReclaimStatistics,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use support::{Machine, MapTable, Placement, advise, config, map};

const REGION: u64 = 512;

/// A machine without swap whose programs may have so many pages; `None` for no splits.
fn machine(max_pages: u64, max_ptes_none: Option<u32>) -> Machine<MapTable> {
    with_swap(max_pages, max_ptes_none, Some(0))
}

fn with_swap(
    max_pages: u64,
    max_ptes_none: Option<u32>,
    swap_bytes: Option<u64>,
) -> Machine<MapTable> {
    let reclaim = ReclaimConfig {
        max_bytes: Some(max_pages * PAGE_BYTES),
        swap_bytes,
        shrink_underused: max_ptes_none.is_some(),
        ..ReclaimConfig::default()
    };
    let khugepaged = max_ptes_none.map(|max_ptes_none| KhugepagedConfig {
        max_ptes_none,
        ..KhugepagedConfig::default()
    });
    let config = OsConfig {
        memory_bytes: 256 << 20,
        zero_page: true,
        reclaim: Some(reclaim),
        khugepaged,
        ..config(PagePolicy::THP, 0.0)
    };
    Machine::new(config, MapTable::new(Placement::None))
}

fn counts(machine: &Machine<MapTable>) -> ReclaimStatistics {
    let statistics = machine.os.statistics(&machine.table);
    statistics.reclaim.unwrap_or_default()
}

/// Stores to the first pages of each of some regions.
fn store(machine: &mut Machine<MapTable>, regions: std::ops::Range<u64>, pages: u64) {
    for region in regions {
        for vpn in region * REGION..region * REGION + pages {
            machine.store(0, vpn, vpn + 1).unwrap();
        }
    }
}

/// Has memory be short: stores to pages of a mapping without large pages until some other leaves, or none can.
fn press(machine: &mut Machine<MapTable>) -> Result<(), OsError> {
    let far = 1 << 20;
    map(machine, 0, far..far + 4096);
    advise(machine, far..far + 4096, Advice::NoHugePage);
    for vpn in far..far + 4096 {
        machine.store(0, vpn, 1)?;
        let counts = counts(machine);
        if counts.zeros_freed + counts.swapped_out > 0 {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn one_page_a_region_takes_512_and_comes_back() {
    let run = |max_ptes_none| {
        let mut machine = machine(8 * REGION, max_ptes_none);
        map(&mut machine, 0, 0..100 * REGION);
        let done = (0..100).try_for_each(|region| machine.store(0, region * REGION, region + 1));
        machine.check();
        machine.check_contents();
        (done, counts(&machine), machine)
    };
    for never in [None, Some(511)] {
        let (done, counts, _) = run(never);
        assert!(matches!(done, Err(OsError::OutOfMemory { .. })));
        assert_eq!(counts.underused_splits, 0);
    }
    let (done, counts, mut machine) = run(Some(510));
    assert_eq!(done, Ok(()));
    assert_eq!(counts.zeros_freed, counts.underused_splits * 511);
    // Faults had small pages where memory was short.
    let given = machine.os.statistics(&machine.table).anonymous;
    let huge = given.large - counts.underused_splits;
    let resident = machine.os.resident_bytes() / PAGE_BYTES;
    assert_eq!(given.base + given.large, 100);
    assert_eq!(
        resident,
        given.base + counts.underused_splits + huge * REGION
    );
    // Zeros that were given back are read without a frame; a store takes one.
    for vpn in [1, 2, 511] {
        assert_eq!(machine.load(0, vpn), Ok(0));
    }
    assert_eq!(machine.os.resident_bytes() / PAGE_BYTES, resident);
    machine.store(0, 2, 7).unwrap();
    assert_eq!(machine.os.resident_bytes() / PAGE_BYTES, resident + 1);
    machine.check();
    machine.check_end(0..1);
}

#[test]
fn a_page_is_split_from_the_zeros_on_that_the_limit_asks_for() {
    // 409 pages of zeros may be, so 103 have to be stored to.
    for (stored, splits) in [(102, 3), (103, 0)] {
        let mut machine = machine(3 * REGION + 8, Some(409));
        map(&mut machine, 0, 0..3 * REGION);
        store(&mut machine, 0..3, stored);
        assert_eq!(press(&mut machine).is_ok(), splits > 0, "{stored} pages");
        let counts = counts(&machine);
        assert_eq!(counts.underused_splits, splits);
        assert_eq!(counts.zeros_freed, splits * (REGION - stored));
        machine.check();
        machine.check_contents();
    }
}

/// Linux looks at few pages while others leave easily (`do_shrink_slab`).
#[test]
fn where_there_is_swap_whole_pages_leave_first() {
    let mut machine = with_swap(100 * REGION, Some(0), None);
    map(&mut machine, 0, 0..100 * REGION);
    store(&mut machine, 0..100, 1);
    press(&mut machine).unwrap();
    let counts = counts(&machine);
    assert_eq!((counts.swapped_out, counts.underused_splits), (REGION, 0));
}

#[test]
fn both_sides_of_a_fork_keep_what_they_have() {
    let mut machine = machine(3 * REGION, Some(256));
    map(&mut machine, 0, 0..2 * REGION);
    store(&mut machine, 0..2, 100);
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    // The child's own, which splits its mapping.
    machine.store(1, 5, 50).unwrap();
    press(&mut machine).unwrap();
    assert_eq!(counts(&machine).underused_splits, 2);
    for vpn in 0..512 {
        let parent = if vpn < 100 { vpn + 1 } else { 0 };
        let child = if vpn == 5 { 50 } else { parent };
        assert_eq!(machine.load(0, vpn), Ok(parent));
        assert_eq!(machine.load(1, vpn), Ok(child));
    }
    machine.check();
    machine.check_end(0..2);
}

#[test]
fn a_child_keeps_what_its_parent_had() {
    let mut machine = machine(2 * REGION, Some(256));
    map(&mut machine, 0, 0..REGION);
    store(&mut machine, 0..1, 300);
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.control(0, Control::Exit { status: 0 }).unwrap();
    map(&mut machine, 1, REGION..2 * REGION);
    machine.store(1, REGION, 1).unwrap();
    press(&mut machine).unwrap();
    assert_eq!(counts(&machine).underused_splits, 1);
    machine.check_contents();
    machine.check_end(0..2);
}

#[test]
fn what_moves_keeps_its_contents_and_what_is_dropped_does_not() {
    let mut machine = machine(3 * REGION, Some(300));
    map(&mut machine, 0, 0..2 * REGION);
    // 212 pages: just enough to stay.
    store(&mut machine, 0..2, 212);
    let moves = Control::Remap {
        old_addr: 0,
        old_len: REGION * PAGE_BYTES,
        new_addr: 4096 * PAGE_BYTES,
        new_len: REGION * PAGE_BYTES,
    };
    machine.control(0, moves).unwrap();
    // A new page at an old place has nothing yet.
    map(&mut machine, 0, 0..REGION);
    machine.store(0, 0, 9).unwrap();
    advise(&mut machine, REGION..2 * REGION, Advice::DontNeed);
    machine.store(0, REGION, 8).unwrap();
    press(&mut machine).unwrap();
    let counts = counts(&machine);
    assert_eq!((counts.underused_splits, counts.zeros_freed), (2, 2 * 511));
    machine.check();
    machine.check_contents();
    assert_eq!(machine.load(0, 4096 + 211), Ok(212));
}

/// A kernel's store at the start of a program is told, where all of its accesses are seen.
#[test]
fn stores_that_are_told_count_as_stores() {
    let mut machine = machine(3 * REGION, Some(510));
    map(&mut machine, 0, 0..2 * REGION);
    let told = |vpn: u64, touch| Control::Touched {
        addr: vpn * PAGE_BYTES,
        len: PAGE_BYTES,
        touch,
    };
    machine.control(0, told(0, Touch::Stored)).unwrap();
    machine.control(0, told(1, Touch::Stored)).unwrap();
    machine.control(0, told(REGION, Touch::Stored)).unwrap();
    machine.control(0, told(REGION + 1, Touch::Loaded)).unwrap();
    press(&mut machine).unwrap();
    let counts = counts(&machine);
    assert_eq!((counts.underused_splits, counts.zeros_freed), (1, 511));
}

/// Contents are not known of memory that no event announces, and after accesses that were left out.
#[test]
fn what_was_not_seen_is_not_taken_for_zeros() {
    for announced in [false, true] {
        let mut machine = machine(3 * REGION, Some(0));
        if announced {
            map(&mut machine, 0, 0..2 * REGION);
            let skipped = Control::Skipped {
                accesses: 1,
                instructions: 1,
            };
            machine.control(0, skipped).unwrap();
        }
        store(&mut machine, 0..2, 1);
        assert!(press(&mut machine).is_err());
        assert_eq!(counts(&machine).underused_splits, 0);
    }
}

proptest! {
    /// The twin: regions, each a set of pages stored to. Once memory is short, those with too many zeros are made of
    /// these pages alone.
    #[test]
    fn memory_is_as_large_as_what_was_stored_to(
        stored in proptest::collection::vec(
            proptest::collection::btree_set(0..REGION, 1..40), 1..6),
        max_ptes_none in 470u32..511,
    ) {
        let regions = stored.len() as u64;
        let mut machine = machine(regions * REGION + 2, Some(max_ptes_none));
        map(&mut machine, 0, 0..regions * REGION);
        for (region, pages) in (0..).zip(&stored) {
            for page in pages {
                machine.store(0, region * REGION + page, page + 1).unwrap();
            }
        }
        prop_assert_eq!(machine.os.resident_bytes() / PAGE_BYTES, regions * REGION);
        let pressed = press(&mut machine);
        let splits = |pages: &&BTreeSet<u64>| REGION as u32 - pages.len() as u32 > max_ptes_none;
        let split: Vec<_> = stored.iter().filter(splits).collect();
        prop_assert_eq!(pressed.is_ok(), !split.is_empty());
        let counts = counts(&machine);
        prop_assert_eq!(counts.underused_splits, split.len() as u64);
        let used: usize = split.iter().map(|pages| pages.len()).sum();
        prop_assert_eq!(counts.zeros_freed, split.len() as u64 * REGION - used as u64);
        machine.check();
        machine.check_contents();
        machine.check_end(0..1);
    }
}
