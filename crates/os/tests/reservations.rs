//! Pages in blocks that are reserved for their regions, and when these become huge pages.

mod support;

use pagelab_addr::{PAGE_BYTES, Pfn};
use pagelab_events::{Advice, Backing, Control};
use pagelab_os::{OsConfig, OsStatistics, PagePolicy};
use pagelab_translation::{Radix, RadixConfig};
use support::{Machine, MapTable, Placement, READ_WRITE, config, map};

const REGION: u64 = 512;

fn machine(mib: u64) -> Machine<MapTable> {
    of_policy(PagePolicy::RESERVED, mib)
}

fn of_policy(policy: PagePolicy, mib: u64) -> Machine<MapTable> {
    let config = OsConfig {
        memory_bytes: mib << 20,
        ..config(policy, 0.0)
    };
    Machine::new(config, MapTable::new(Placement::None))
}

fn statistics(machine: &Machine<MapTable>) -> OsStatistics {
    machine.os.statistics(&machine.table)
}

fn frame(machine: &mut Machine<MapTable>, vpn: u64) -> Pfn {
    let page = machine.page(0, vpn);
    machine.table.lookup_pfn(page)
}

/// In whatever order pages are touched, each lies in its place, and the last one makes the block one page.
#[test]
fn a_region_that_is_touched_whole_becomes_a_huge_page() {
    let mut machine = machine(32);
    map(&mut machine, 0, 0..REGION);
    // 5 has no divisor in common with 512.
    for (count, vpn) in (0..REGION).map(|n| n * 5 % REGION).enumerate() {
        assert_eq!(machine.os.resident_bytes(), count as u64 * PAGE_BYTES);
        assert_eq!(statistics(&machine).promoted, 0);
        machine.store(0, vpn, vpn + 1).unwrap();
        let head = frame(&mut machine, vpn).0 - vpn as u32;
        assert!(head.is_multiple_of(512));
    }
    let counts = statistics(&machine);
    assert_eq!((counts.promoted, counts.anonymous.base), (1, REGION));
    machine.check();
    machine.check_contents();
    machine.check_end(0..1);
}

/// The 64th page makes the block one page (`vm.reserv.sync_popthreshold` of Quicksilver's Sync-64), all of which is
/// data then; what nobody touched reads as zeros.
#[test]
fn quicksilver_makes_a_huge_page_of_a_region_touched_in_part() {
    let mut machine = of_policy(PagePolicy::QUICKSILVER, 32);
    map(&mut machine, 0, 0..2 * REGION);
    for (count, vpn) in (0..64).map(|n| n * 5 % REGION).enumerate() {
        assert_eq!(machine.os.resident_bytes(), count as u64 * PAGE_BYTES);
        assert_eq!(statistics(&machine).promoted, 0);
        machine.store(0, vpn, vpn + 1).unwrap();
    }
    let whole = machine.os.resident_bytes();
    assert_eq!(
        (statistics(&machine).promoted, whole),
        (1, REGION * PAGE_BYTES)
    );
    let faults = statistics(&machine).faults;
    for vpn in 0..REGION {
        machine.load(0, vpn).unwrap();
    }
    assert_eq!(statistics(&machine).faults, faults);
    // A second region of which too few are touched, in a child, too.
    for vpn in REGION..REGION + 63 {
        machine.store(0, vpn, vpn).unwrap();
    }
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.store(0, REGION + 63, 1).unwrap();
    assert_eq!(statistics(&machine).promoted, 1);
    machine.check();
    machine.check_contents();
    machine.check_end(0..2);
}

#[test]
fn a_region_that_is_not_covered_has_pages_by_themselves() {
    let mut machine = machine(32);
    map(&mut machine, 0, 1..REGION);
    for vpn in 1..REGION {
        machine.store(0, vpn, vpn).unwrap();
    }
    assert_eq!(statistics(&machine).promoted, 0);
    machine.check();
}

/// Sixteen blocks are reserved by a page each; their other frames go to whoever needs them.
#[test]
fn frames_that_nobody_uses_are_free_when_memory_is_short() {
    let mut machine = machine(32);
    map(&mut machine, 0, 0..64 * REGION);
    for region in 0..16 {
        machine.store(0, region * REGION, region + 1).unwrap();
    }
    assert_eq!(machine.os.frames().buddy().free_pageblocks(), 0);
    assert_eq!(machine.os.resident_bytes(), 16 * PAGE_BYTES);
    for vpn in 20 * REGION..20 * REGION + 8000 {
        machine.store(0, vpn, vpn).unwrap();
    }
    machine.check();
    machine.check_contents();
    machine.check_end(0..1);
}

/// The page table's own frames come from the block that was just reserved, but for the page that is being mapped.
#[test]
fn a_reservation_that_makes_room_for_its_page_table_keeps_the_page() {
    let config = OsConfig {
        memory_bytes: 32 << 20,
        free_blocks: vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        ..config(PagePolicy::RESERVED, 0.0)
    };
    let table = Radix::new(&RadixConfig::default(), 1).unwrap();
    let mut machine = Machine::new(config, table);
    let memory = Control::Map {
        addr: 0,
        len: REGION * PAGE_BYTES,
        prot: READ_WRITE,
        backing: Backing::Anonymous,
        populate: false,
    };
    machine.control(0, memory).unwrap();
    for vpn in [0, 5, 300] {
        machine.store(0, vpn, vpn + 1).unwrap();
        machine.check();
    }
    machine.check_contents();
    machine.check_end(0..1);
}

#[test]
fn a_page_that_is_given_back_has_its_place_again() {
    let mut machine = machine(32);
    map(&mut machine, 0, 0..REGION);
    for vpn in 0..100 {
        machine.store(0, vpn, vpn + 1).unwrap();
    }
    let before = frame(&mut machine, 50);
    let given_back = Control::Advise {
        addr: 40 * PAGE_BYTES,
        len: 20 * PAGE_BYTES,
        advice: Advice::DontNeed,
    };
    machine.control(0, given_back).unwrap();
    assert_eq!(machine.os.resident_bytes(), 80 * PAGE_BYTES);
    machine.store(0, 50, 7).unwrap();
    assert_eq!(frame(&mut machine, 50), before);
    machine.check();
    machine.check_contents();
}

/// Pages that a child has, too, are not the parent's alone.
#[test]
fn no_huge_page_is_made_of_what_a_child_has() {
    let mut machine = machine(32);
    map(&mut machine, 0, 0..REGION);
    for vpn in 0..REGION - 1 {
        machine.store(0, vpn, vpn + 1).unwrap();
    }
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.store(0, REGION - 1, 9).unwrap();
    assert_eq!(statistics(&machine).promoted, 0);
    machine.check();
    machine.check_contents();
    machine.check_end(0..2);
}
