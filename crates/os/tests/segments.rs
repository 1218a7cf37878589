//! Pages in restrictive segments, in whole memories.

mod support;

use pagelab_addr::{PAGE_BYTES, PageSize};
use pagelab_events::{Backing, Control};
use pagelab_os::{Os, OsConfig, PagePolicy, Placement, SegmentStatistics};
use pagelab_translation::{PageTable, Radix, RadixConfig, RestSegs, Segmented};
use support::{Machine, READ_WRITE, config};

type Table = Segmented<Radix>;

/// 64 MiB of memory with a segment of 1 MiB for small pages, 64 sets of 4 ways, and one of 16 MiB
/// for large ones, 2 sets of 4 ways.
fn machine(policy: PagePolicy, at_faults: bool, evicting: bool) -> Machine<Table> {
    let config = OsConfig {
        memory_bytes: 64 << 20,
        ..config(policy, 0.0)
    };
    let segments = RestSegs::new(1 << 14, [1 << 20, 16 << 20], 4, 1 << 10);
    let placement = Placement::Segmented {
        segments,
        at_faults,
        evicting,
    };
    let os = Os::with_placement(config, placement, 7).unwrap();
    let radix = Radix::new(&RadixConfig::default(), 1).unwrap();
    Machine::with_os(os, Segmented::new(radix, segments))
}

fn map(machine: &mut Machine<Table>, vpn: u64, pages: u64) {
    let event = Control::Map {
        addr: vpn * PAGE_BYTES,
        len: pages * PAGE_BYTES,
        prot: READ_WRITE,
        backing: Backing::Anonymous,
        populate: false,
    };
    machine.control(0, event).unwrap();
}

fn touch(machine: &mut Machine<Table>, vpn: u64) {
    let page = machine.page(0, vpn);
    machine.fault(page, true).unwrap();
}

fn has(machine: &mut Machine<Table>, size: PageSize, vpn: u64) -> bool {
    let page = machine.page(0, vpn);
    machine.table.table.has(size, page)
}

fn statistics(machine: &Machine<Table>) -> SegmentStatistics {
    machine.os.statistics(&machine.table).segments.unwrap()
}

#[test]
fn a_set_takes_as_many_pages_as_it_has_ways() {
    let mut machine = machine(PagePolicy::BASE, true, false);
    map(&mut machine, 0, 1024);
    // Each of 64 sets is asked for by 16 pages.
    for vpn in 0..1024 {
        touch(&mut machine, vpn);
        assert_eq!(has(&mut machine, PageSize::Base4K, vpn), vpn < 256);
    }
    let counted = statistics(&machine);
    assert_eq!((counted.placed.base, counted.full.base), (256, 768));
    assert_eq!((counted.places.base, counted.used.base), (256, 256));
    let range = Control::Unmap {
        addr: 0,
        len: 8 * PAGE_BYTES,
    };
    machine.control(0, range).unwrap();
    assert_eq!(statistics(&machine).used.base, 248);
    // Another page of set 3 has the way that has become free.
    map(&mut machine, 2048, 64);
    touch(&mut machine, 2048 + 3);
    touch(&mut machine, 2048 + 9);
    assert!(has(&mut machine, PageSize::Base4K, 2048 + 3));
    assert!(!has(&mut machine, PageSize::Base4K, 2048 + 9));
}

#[test]
fn the_page_that_was_not_used_leaves_a_full_set() {
    let mut machine = machine(PagePolicy::BASE, true, true);
    map(&mut machine, 0, 1024);
    let of_set_5 = |number: u64| number * 64 + 5;
    for number in 0..4 {
        touch(&mut machine, of_set_5(number));
    }
    // All were used but the third.
    for number in [0, 1, 3] {
        let page = machine.page(0, of_set_5(number));
        let found = machine.table.lookup(page).unwrap();
        machine.os.access(found.pfn);
    }
    touch(&mut machine, of_set_5(4));
    let has: Vec<bool> = (0..5)
        .map(|number| has(&mut machine, PageSize::Base4K, of_set_5(number)))
        .collect();
    assert_eq!(has, [true, true, false, true, true]);
    let counted = statistics(&machine);
    assert_eq!((counted.evicted.base, counted.full.base), (1, 0));
    assert_eq!(machine.os.statistics(&machine.table).pages_migrated, 1);
}

#[test]
fn pages_are_moved_in_and_others_out() {
    let mut machine = machine(PagePolicy::BASE, false, false);
    map(&mut machine, 0, 1024);
    for number in 0..6 {
        touch(&mut machine, number * 64);
        assert!(!has(&mut machine, PageSize::Base4K, number * 64));
    }
    let mut move_in = |vpn| {
        let page = machine.page(0, vpn);
        machine.move_in(page);
        (machine.effects.pages_migrated, machine.effects.shootdowns)
    };
    for number in 0..4 {
        assert_eq!(move_in(number * 64), (1, 1));
    }
    // It is there already.
    assert_eq!(move_in(0), (0, 0));
    // One in and one out.
    assert_eq!(move_in(4 * 64), (2, 2));
    let counted = statistics(&machine);
    assert_eq!((counted.moved_in.base, counted.evicted.base), (5, 1));
    assert_eq!((counted.refused.base, counted.placed.base), (1, 0));
}

#[test]
fn large_pages_have_a_segment_of_their_own() {
    let mut machine = machine(PagePolicy::THP, true, false);
    map(&mut machine, 0, 10 * 512);
    for region in 0..10 {
        touch(&mut machine, region * 512);
        // Two sets of four.
        assert_eq!(
            has(&mut machine, PageSize::Large2M, region * 512),
            region < 8
        );
    }
    let counted = statistics(&machine);
    assert_eq!((counted.placed.large, counted.full.large), (8, 2));
    // A piece of a page that was split is in no set; its frame comes back with the others.
    let piece = Control::Unmap {
        addr: 0,
        len: PAGE_BYTES,
    };
    machine.control(0, piece).unwrap();
    assert!(!has(&mut machine, PageSize::Large2M, 0));
    assert_eq!(statistics(&machine).used.large, 8);
    let rest = Control::Unmap {
        addr: PAGE_BYTES,
        len: 511 * PAGE_BYTES,
    };
    machine.control(0, rest).unwrap();
    assert_eq!(statistics(&machine).used.large, 7);
}
