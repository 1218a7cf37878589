//! Folios of several 4 KiB pages: one fault for all of them, contiguous frames.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Advice, Backing, Control, Protection};
use pagelab_os::{Os, OsConfig, PagePolicy, Placement};
use pagelab_translation::{MapError, PageTable};
use support::{Machine, MapTable, Placement as Tables, READ_WRITE, config};

const ORDER: u32 = 4;
const PAGES: u64 = 1 << ORDER;

fn machine() -> Machine<MapTable> {
    let policy = PagePolicy::folio(ORDER);
    Machine::new(config(policy, 0.0), MapTable::new(Tables::None))
}

fn map(machine: &mut Machine<MapTable>, first: u64, pages: u64, prot: Protection) {
    let event = Control::Map {
        addr: first * PAGE_BYTES,
        len: pages * PAGE_BYTES,
        prot,
        backing: Backing::Anonymous,
        populate: false,
    };
    machine.control(0, event).unwrap();
}

fn touch(machine: &mut Machine<MapTable>, vpn: u64) {
    let page = machine.page(0, vpn);
    machine.fault(page, true).unwrap();
}

fn mapped(machine: &mut Machine<MapTable>, pages: std::ops::Range<u64>) -> Vec<Option<u32>> {
    pages
        .map(|vpn| {
            let page = machine.page(0, vpn);
            machine.table.lookup(page).map(|found| found.pfn.0)
        })
        .collect()
}

#[test]
fn one_fault_maps_the_aligned_folio_around_a_page() {
    let mut machine = machine();
    map(&mut machine, 0, 10 * PAGES, READ_WRITE);
    touch(&mut machine, 3 * PAGES + 5);
    let folio = mapped(&mut machine, 3 * PAGES..4 * PAGES);
    let head = folio[0].unwrap();
    assert_eq!(head % PAGES as u32, 0);
    let expected: Vec<_> = (0..PAGES as u32).map(|page| Some(head + page)).collect();
    assert_eq!(folio, expected);
    let beside = [2 * PAGES..3 * PAGES, 4 * PAGES..5 * PAGES];
    for pages in beside {
        assert!(mapped(&mut machine, pages).iter().all(Option::is_none));
    }
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(statistics.faults, 1);
    assert_eq!(statistics.anonymous.base, PAGES);
    assert_eq!(machine.os.resident_bytes(), PAGES * PAGE_BYTES);
    machine.check();
}

#[test]
fn where_a_folio_does_not_fit_there_is_a_page() {
    let mut machine = machine();
    // A VMA that begins and ends within a folio.
    map(&mut machine, 3, PAGES, READ_WRITE);
    touch(&mut machine, 5);
    touch(&mut machine, PAGES + 1);
    assert_eq!(machine.os.statistics(&machine.table).anonymous.base, 2);
    // A page of the folio is there already.
    map(&mut machine, 10 * PAGES, 1, READ_WRITE);
    touch(&mut machine, 10 * PAGES);
    map(&mut machine, 10 * PAGES + 1, PAGES - 1, READ_WRITE);
    touch(&mut machine, 10 * PAGES + 7);
    assert_eq!(machine.os.statistics(&machine.table).anonymous.base, 4);
    // Not wanted.
    map(&mut machine, 20 * PAGES, PAGES, READ_WRITE);
    let advice = Control::Advise {
        addr: 20 * PAGES * PAGE_BYTES,
        len: PAGES * PAGE_BYTES,
        advice: Advice::NoHugePage,
    };
    machine.control(0, advice).unwrap();
    touch(&mut machine, 20 * PAGES);
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!((statistics.anonymous.base, statistics.faults), (5, 5));
    machine.check();
}

#[test]
fn where_folios_are_to_be_asked_for_who_does_not_gets_pages() {
    let policy = PagePolicy::folio_madvise(ORDER);
    let mut machine = Machine::new(config(policy, 0.0), MapTable::new(Tables::None));
    map(&mut machine, 0, 2 * PAGES, READ_WRITE);
    let asks = Control::Advise {
        addr: PAGES * PAGE_BYTES,
        len: PAGES * PAGE_BYTES,
        advice: Advice::HugePage,
    };
    machine.control(0, asks).unwrap();
    touch(&mut machine, 3);
    touch(&mut machine, PAGES + 3);
    let there = mapped(&mut machine, 0..2 * PAGES);
    assert_eq!(there[..PAGES as usize].iter().flatten().count(), 1);
    assert!(there[PAGES as usize..].iter().all(Option::is_some));
    machine.check();
}

#[test]
fn populating_makes_folios_and_counts_their_pages() {
    let mut machine = machine();
    let event = Control::Map {
        addr: 0,
        len: 3 * PAGES * PAGE_BYTES,
        prot: READ_WRITE,
        backing: Backing::Anonymous,
        populate: true,
    };
    machine.control(0, event).unwrap();
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(statistics.populated.base, 3 * PAGES);
    assert_eq!(statistics.faults, 0);
    machine.check();
}

#[test]
fn without_a_free_block_faults_take_pages() {
    let mut machine = Machine::new(
        OsConfig {
            memory_bytes: 64 << 20,
            // No free 2 MiB block, and little else that is free beside each other.
            utilisation: 0.9,
            fragmentation: 1.0,
            page_policy: PagePolicy::folio(8),
            ..config(PagePolicy::BASE, 0.0)
        },
        MapTable::new(Tables::None),
    );
    map(&mut machine, 0, 1024, READ_WRITE);
    for vpn in 0..1024 {
        let page = machine.page(0, vpn);
        if machine.table.lookup(page).is_none() {
            machine.fault(page, true).unwrap();
        }
    }
    let statistics = machine.os.statistics(&machine.table);
    assert!(statistics.fallbacks_folio > 0);
    assert_eq!(statistics.anonymous.base, 1024);
    machine.check();
}

/// A part of a folio that a page table without memory for all of it has taken stays, and is not
/// mapped again.
#[test]
fn a_folio_may_be_mapped_in_part() {
    let mut machine = machine();
    machine.table.failure = MapError::OutOfFrames;
    for (first, maps) in [(0, 5), (PAGES, 2)] {
        map(&mut machine, first, PAGES, READ_WRITE);
        machine.table.maps_left = maps;
        touch(&mut machine, first + 3);
        let pages = mapped(&mut machine, first..first + PAGES);
        let there = pages.iter().filter(|page| page.is_some()).count() as u64;
        // The page itself, where it is not among them.
        assert!(pages[3].is_some());
        assert_eq!(there, if maps > 3 { maps } else { maps + 1 });
        machine.check();
    }
    assert_eq!(machine.os.statistics(&machine.table).anonymous.base, 5 + 3);
}

#[test]
fn hashed_frames_are_refused() {
    let policy = PagePolicy::folio(ORDER);
    let error = Os::with_placement(config(policy, 0.0), Placement::Hashed, 1).unwrap_err();
    assert!(error.to_string().contains("64K"), "{error}");
}

#[test]
fn policies_are_written_as_sizes() {
    for name in [
        "base",
        "64K",
        "1M",
        "64K-madvise",
        "1M-madvise",
        "thp",
        "thp-madvise",
        "1G",
    ] {
        let policy = PagePolicy::try_from(name.to_owned()).unwrap();
        assert_eq!(policy.to_string(), name);
    }
    let same = |a: &str, b: &str| {
        assert_eq!(
            PagePolicy::try_from(a.to_owned()),
            PagePolicy::try_from(b.to_owned())
        );
    };
    same("4K", "base");
    same("2M", "thp");
    let unknown = PagePolicy::try_from("3M".to_owned()).unwrap_err();
    assert!(unknown.to_string().contains("64K"), "{unknown}");
}

/// Smaller sizes where the largest does not fit (`alloc_anon_folio`): a VMA of 64 KiB and then 16 KiB more.
#[test]
fn of_several_sizes_the_largest_that_fits_is_taken() {
    let policy = PagePolicy::try_from("thp+64K+16K".to_owned()).unwrap();
    let mut machine = Machine::new(config(policy, 0.0), MapTable::new(Tables::None));
    map(&mut machine, 512, 512 + 16 + 4, READ_WRITE);
    for (vpn, pages) in [(700, 512), (1024 + 3, 16), (1040, 4)] {
        let before = machine.os.statistics(&machine.table).anonymous;
        touch(&mut machine, vpn);
        let after = machine.os.statistics(&machine.table).anonymous;
        let mapped = after.base - before.base + 512 * (after.large - before.large);
        assert_eq!(mapped, pages, "around {vpn}");
    }
    assert_eq!(machine.os.statistics(&machine.table).faults, 3);
    machine.check();
}

#[test]
fn without_blocks_of_one_size_the_next_is_taken() {
    let policy = PagePolicy::try_from("256K+64K".to_owned()).unwrap();
    let config = OsConfig {
        // Free blocks of 64 KiB alone.
        free_blocks: vec![0, 0, 0, 0, 100],
        ..config(policy, 0.0)
    };
    let mut machine = Machine::new(config, MapTable::new(Tables::None));
    map(&mut machine, 0, 64, READ_WRITE);
    touch(&mut machine, 0);
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(
        (statistics.anonymous.base, statistics.fallbacks_folio),
        (16, 1)
    );
    let blocks = statistics.blocks.unwrap();
    assert_eq!((blocks.given, blocks.no_free_block), (0, 1));
    machine.check();
}

/// The heap is a mapping of its own, right behind the program's data, too; what brk adds to it is a part of it.
#[test]
fn a_folio_does_not_reach_over_the_begin_of_the_heap() {
    let mut machine = machine();
    map(&mut machine, 0, PAGES + 4, READ_WRITE);
    for end in [PAGES + 4, 2 * PAGES + 8, 4 * PAGES] {
        let end = end * PAGE_BYTES;
        machine.control(0, Control::Brk { end }).unwrap();
    }
    let pages = [
        (PAGES + 1, 1),
        (PAGES + 5, 2),
        (2 * PAGES + 3, PAGES + 2),
        (3, 2 * PAGES + 2),
    ];
    for (vpn, expected) in pages {
        touch(&mut machine, vpn);
        let statistics = machine.os.statistics(&machine.table);
        assert_eq!(statistics.anonymous.base, expected, "{vpn}");
    }
}
