//! Code of files that is copied into pages of 2 MiB where it is mapped.

mod support;

use pagelab_addr::{PAGE_BYTES, PageSize};
use pagelab_events::{Backing, Control, Protection};
use pagelab_os::{OsConfig, OsStatistics, PagePolicy};
use support::{Machine, MapTable, Placement, config};

const REGION: u64 = 512;
const CODE: Protection = Protection(Protection::READ | Protection::EXEC);

fn machine(huge_code: bool, fragmentation: f64) -> Machine<MapTable> {
    let config = OsConfig {
        huge_code,
        fragmentation,
        // Nothing in use moves then.
        unmovable_share: fragmentation,
        ..config(PagePolicy::BASE, 0.1)
    };
    Machine::new(config, MapTable::new(Placement::None))
}

/// Maps from 100 pages before the first of `regions` to 100 behind the last.
fn map(machine: &mut Machine<MapTable>, regions: u64, prot: Protection, backing: Backing) {
    let event = Control::Map {
        addr: (REGION - 100) * PAGE_BYTES,
        len: (regions * REGION + 200) * PAGE_BYTES,
        prot,
        backing,
        populate: false,
    };
    machine.control(0, event).unwrap();
}

fn statistics(machine: &Machine<MapTable>) -> OsStatistics {
    machine.os.statistics(&machine.table)
}

fn size_at(machine: &mut Machine<MapTable>, vpn: u64) -> Option<PageSize> {
    use pagelab_translation::PageTable;
    let page = machine.page(0, vpn);
    machine.table.lookup(page).map(|found| found.size)
}

#[test]
fn whole_regions_of_code_are_huge_pages_at_once() {
    let mut machine = machine(true, 0.0);
    map(&mut machine, 3, CODE, Backing::PrivateFile);
    assert_eq!(statistics(&machine).collapsed, 3);
    assert_eq!(machine.effects.pages_copied, 3 * REGION);
    assert_eq!(statistics(&machine).resident_bytes, 3 * REGION * PAGE_BYTES);
    for vpn in REGION..4 * REGION {
        machine.load(0, vpn).unwrap();
    }
    assert_eq!(statistics(&machine).faults, 0);
    assert_eq!(size_at(&mut machine, 2 * REGION), Some(PageSize::Large2M));
    // The ends are the file's.
    for vpn in [REGION - 1, 4 * REGION] {
        machine.load(0, vpn).unwrap();
        assert_eq!(size_at(&mut machine, vpn), Some(PageSize::Base4K));
    }
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.load(1, 2 * REGION + 7).unwrap();
    machine.check();
    machine.check_contents();
    let half = Control::Unmap {
        addr: 2 * REGION * PAGE_BYTES,
        len: REGION / 2 * PAGE_BYTES,
    };
    machine.control(0, half).unwrap();
    machine.check();
    machine.check_contents();
    machine.check_end(0..2);
}

#[test]
fn what_is_no_code_of_a_file_stays_as_it_is() {
    let writable = Protection(CODE.0 | Protection::WRITE);
    let readable = Protection(Protection::READ);
    for (huge_code, prot, backing) in [
        (false, CODE, Backing::PrivateFile),
        (true, writable, Backing::PrivateFile),
        (true, readable, Backing::PrivateFile),
        (true, CODE, Backing::SharedFile),
        (true, CODE, Backing::Anonymous),
    ] {
        let mut machine = machine(huge_code, 0.0);
        map(&mut machine, 1, prot, backing);
        assert_eq!(size_at(&mut machine, REGION), None, "{prot:?} {backing:?}");
        assert_eq!(statistics(&machine).resident_bytes, 0);
    }
}

#[test]
fn without_a_free_block_code_is_the_files() {
    let mut machine = machine(true, 1.0);
    let free = machine.os.frames().buddy().free_pageblocks();
    assert_eq!(free, 0);
    map(&mut machine, 1, CODE, Backing::PrivateFile);
    assert_eq!(
        (
            statistics(&machine).collapsed,
            statistics(&machine).fallbacks_2m
        ),
        (0, 1)
    );
    machine.load(0, REGION).unwrap();
    assert_eq!(statistics(&machine).files.unwrap().faults, 1);
    machine.check();
    machine.check_contents();
}
