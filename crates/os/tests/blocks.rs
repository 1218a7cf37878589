//! Blocks of the page policy's size: what each got when it was first touched, and why.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Advice, Backing, Control};
use pagelab_os::{BlockStatistics, OsConfig, PagePolicy};
use support::{Machine, MapTable, Placement, config, map, map_of};

const BLOCK: u64 = 512;

fn machine(policy: PagePolicy) -> Machine<MapTable> {
    Machine::new(config(policy, 0.0), MapTable::new(Placement::Anywhere))
}

fn advise(machine: &mut Machine<MapTable>, block: u64, advice: Advice) {
    let event = Control::Advise {
        addr: block * BLOCK * PAGE_BYTES,
        len: BLOCK * PAGE_BYTES,
        advice,
    };
    machine.control(0, event).unwrap();
}

fn store(machine: &mut Machine<MapTable>, pages: impl IntoIterator<Item = u64>) {
    for vpn in pages {
        machine.store(0, vpn, 1).unwrap();
    }
}

fn counted(machine: &Machine<MapTable>) -> Option<BlockStatistics> {
    machine.os.statistics(&machine.table).blocks
}

/// A block of each kind, every page of it written.
fn one_of_each(policy: PagePolicy) -> Option<BlockStatistics> {
    let mut machine = machine(policy);
    map(&mut machine, 0, BLOCK..4 * BLOCK);
    advise(&mut machine, 2, Advice::HugePage);
    advise(&mut machine, 3, Advice::NoHugePage);
    store(&mut machine, BLOCK..4 * BLOCK);
    // Ends within a block, and grows only then.
    map(&mut machine, 0, 8 * BLOCK..8 * BLOCK + 100);
    store(&mut machine, 8 * BLOCK..8 * BLOCK + 100);
    map(&mut machine, 0, 8 * BLOCK + 100..9 * BLOCK);
    store(&mut machine, 8 * BLOCK + 100..9 * BLOCK);
    map_of(
        &mut machine,
        0,
        10 * BLOCK..12 * BLOCK,
        Backing::PrivateFile,
    );
    store(&mut machine, 10 * BLOCK..12 * BLOCK);
    map_of(
        &mut machine,
        0,
        12 * BLOCK..13 * BLOCK,
        Backing::SharedAnonymous,
    );
    store(&mut machine, 12 * BLOCK..13 * BLOCK);
    machine.check();
    counted(&machine)
}

#[test]
fn each_block_counts_once_under_its_reason() {
    let always = BlockStatistics {
        given: 2,
        unwanted: 1,
        not_covered: 1,
        file: 2,
        shared: 1,
        ..BlockStatistics::default()
    };
    assert_eq!(one_of_each(PagePolicy::THP), Some(always));
    let asked = BlockStatistics {
        given: 1,
        not_advised: 1,
        ..always
    };
    assert_eq!(one_of_each(PagePolicy::THP_MADVISE), Some(asked));
    assert_eq!(one_of_each(PagePolicy::BASE), None);
}

#[test]
fn blocks_of_folios_are_of_their_size() {
    let found = one_of_each(PagePolicy::folio(4)).unwrap();
    // 512 pages have 32 of them; 100 pages 6, and 4 of the seventh.
    let expected = BlockStatistics {
        given: 2 * 32 + 6 + 25,
        unwanted: 32,
        not_covered: 1,
        file: 2 * 32,
        shared: 32,
        ..BlockStatistics::default()
    };
    assert_eq!(found, expected);
}

#[test]
fn a_folio_that_is_read_first_is_pages() {
    let mut machine = machine(PagePolicy::folio(4));
    map(&mut machine, 0, 0..32);
    machine.load(0, 3).unwrap();
    store(&mut machine, 0..32);
    let blocks = counted(&machine).unwrap();
    assert_eq!((blocks.read_first, blocks.given), (1, 1));
}

#[test]
fn a_block_that_was_unmapped_counts_again() {
    let mut machine = machine(PagePolicy::THP);
    map(&mut machine, 0, 0..2 * BLOCK);
    store(&mut machine, 0..2 * BLOCK);
    advise(&mut machine, 0, Advice::DontNeed);
    store(&mut machine, 0..2 * BLOCK);
    assert_eq!(counted(&machine).unwrap().given, 3);
}

#[test]
fn without_a_free_block_each_falls_back_once_read_or_written_first() {
    for read_first in [false, true] {
        let mut machine = Machine::new(
            OsConfig {
                utilisation: 0.5,
                fragmentation: 1.0,
                ..config(PagePolicy::THP, 0.0)
            },
            MapTable::new(Placement::Anywhere),
        );
        map(&mut machine, 0, BLOCK..3 * BLOCK);
        for vpn in (BLOCK..3 * BLOCK).filter(|_| read_first) {
            machine.load(0, vpn).unwrap();
        }
        store(&mut machine, BLOCK..3 * BLOCK);
        let blocks = counted(&machine).unwrap();
        let zeros = machine.os.statistics(&machine.table).zero_pages;
        assert_eq!(
            (blocks.given, blocks.no_free_block),
            (0, 2),
            "{read_first}: {zeros} pages of zeros"
        );
        machine.check_contents();
    }
}
