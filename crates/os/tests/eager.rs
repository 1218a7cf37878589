//! Allocations that get their frames when they are made.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Backing, Control, Protection};
use pagelab_os::{Os, OsConfig, OsError, PagePolicy, Placement};
use pagelab_translation::{PageTable, Radix, RadixConfig, Ranged};
use support::{Machine, READ_WRITE, config};

type Table = Ranged<Radix>;

fn machine(config: OsConfig) -> Machine<Table> {
    let os = Os::with_placement(config, Placement::Eager, 7).unwrap();
    let radix = Radix::new(&RadixConfig::default(), 1).unwrap();
    Machine::with_os(os, Ranged::new(radix))
}

fn map(machine: &mut Machine<Table>, addr: u64, len: u64, prot: Protection) {
    let event = Control::Map {
        addr,
        len,
        prot,
        backing: Backing::Anonymous,
        populate: false,
    };
    machine.control(0, event).unwrap();
}

/// Ranges of more than one page around the pages of an allocation.
fn ranges(machine: &mut Machine<Table>, pages: u64) -> Vec<u64> {
    let mut lengths = Vec::new();
    let mut vpn = 0;
    while vpn < pages {
        let page = machine.page(0, vpn);
        let range = machine.table.range(page).expect("all is mapped in ranges");
        lengths.push(range.pages);
        vpn = range.first.0 + range.pages;
    }
    lengths
}

/// The largest blocks follow each other but for the page tables made meanwhile; what is left over
/// comes in ever smaller blocks.
#[test]
fn in_empty_memory_an_allocation_is_a_few_ranges() {
    let mut machine = machine(config(PagePolicy::BASE, 0.0));
    let pages = 10_000;
    map(&mut machine, 0, pages * PAGE_BYTES, READ_WRITE);
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!((statistics.faults, statistics.anonymous.base), (0, pages));
    let lengths = ranges(&mut machine, pages);
    assert_eq!(lengths.iter().sum::<u64>(), pages);
    assert!(lengths.len() <= 6, "{lengths:?}");
    machine.check();
    machine.check_end(0..1);
}

/// Free blocks of 2 MiB and more, chosen at random, among used ones: ranges are as long as those.
#[test]
fn in_used_memory_ranges_are_as_long_as_free_blocks() {
    let mut machine = machine(OsConfig {
        fragmentation: 0.0,
        ..config(PagePolicy::BASE, 0.5)
    });
    let pages = 4096;
    map(&mut machine, 0, pages * PAGE_BYTES, READ_WRITE);
    let lengths = ranges(&mut machine, pages);
    assert!((2..=8).contains(&lengths.len()), "{lengths:?}");
    assert!(
        lengths.iter().all(|length| length % 512 == 0),
        "{lengths:?}"
    );
}

#[test]
fn large_pages_are_taken_where_they_fit() {
    let mut machine = machine(config(PagePolicy::THP, 0.0));
    map(&mut machine, PAGE_BYTES, 1535 * PAGE_BYTES, READ_WRITE);
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(statistics.anonymous.large, 2);
    assert_eq!(statistics.anonymous.base, 511);
}

#[test]
fn what_may_not_be_written_waits_for_a_touch() {
    let mut machine = machine(config(PagePolicy::BASE, 0.0));
    map(&mut machine, 0, 1 << 20, Protection(0));
    assert_eq!(machine.os.resident_bytes(), 0);
}

#[test]
fn past_the_end_of_memory_an_allocation_is_left_to_faults() {
    let mut machine = machine(OsConfig {
        memory_bytes: 16 << 20,
        ..config(PagePolicy::BASE, 0.0)
    });
    map(&mut machine, 0, 64 << 20, READ_WRITE);
    machine.check();
    let page = machine.page(0, 16_000);
    let full = machine.fault(page, true);
    assert!(matches!(full, Err(OsError::OutOfMemory { .. })));
    machine.check_end(0..1);
}
