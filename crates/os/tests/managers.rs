//! Memory of a program as memory file systems give it: what linux/tests/fbmm sees there.

mod support;

use pagelab_addr::{PAGE_BYTES, PageSize, Pfn};
use pagelab_events::{Advice, Backing, Control, Protection};
use pagelab_os::{ManagerConfig, NodeConfig, OsConfig, OsError, OsStatistics, PagePolicy};
use pagelab_translation::PageTable;
use support::{Machine, MapTable, Placement, advise, config, map, map_of};

fn machine(policy: PagePolicy, manager: ManagerConfig) -> Machine<MapTable> {
    let config = OsConfig {
        manager,
        ..config(policy, 0.0)
    };
    Machine::new(config, MapTable::new(Placement::None))
}

fn basic(policy: PagePolicy, pages: u64) -> Machine<MapTable> {
    let size = format!("{}KiB", 4 * pages);
    machine(policy, ManagerConfig::Basic { size })
}

fn statistics(machine: &Machine<MapTable>) -> OsStatistics {
    machine.os.statistics(&machine.table)
}

fn frame(machine: &mut Machine<MapTable>, vpn: u64) -> Option<Pfn> {
    let page = machine.page(0, vpn);
    machine.table.lookup(page).map(|found| found.pfn)
}

/// `size=`: the page after the last is SIGBUS, whatever else is free, and stacks and files are not from there.
#[test]
fn a_pool_gives_its_pages_and_no_more() {
    let mut machine = basic(PagePolicy::THP, 600);
    map_of(&mut machine, 0, 5000..5010, Backing::Stack);
    map_of(&mut machine, 0, 6000..6010, Backing::SharedFile);
    map(&mut machine, 0, 0..1024);
    for vpn in (0..600).chain(5000..5010).chain(6000..6010) {
        machine.store(0, vpn, vpn + 1).unwrap();
    }
    let full = machine.store(0, 600, 1);
    assert!(matches!(full, Err(OsError::OutOfMemory { .. })));
    // Memory that was never written needs no page.
    assert_eq!(machine.load(0, 600), Ok(0));
    assert_eq!(statistics(&machine).anonymous.large, 0);
    machine.check();
    machine.check_contents();
    machine.check_end(0..1);
}

/// The pool, and not the kernel, has what a program gives back, and gives it again first.
#[test]
fn what_comes_back_to_a_pool_last_is_given_first() {
    let mut machine = basic(PagePolicy::BASE, 100);
    map(&mut machine, 0, 0..200);
    for vpn in 0..100 {
        machine.store(0, vpn, 1).unwrap();
    }
    let frames: Vec<_> = [30, 7, 51]
        .map(|vpn| {
            let pfn = frame(&mut machine, vpn);
            advise(&mut machine, vpn..vpn + 1, Advice::DontNeed);
            pfn
        })
        .into();
    map_of(&mut machine, 0, 6000..6010, Backing::SharedAnonymous);
    for (vpn, pfn) in (100..).zip(frames.into_iter().rev()) {
        // Memory of another kind comes between.
        machine.store(0, 6000 + vpn - 100, 1).unwrap();
        machine.store(0, vpn, 1).unwrap();
        assert_eq!(frame(&mut machine, vpn), pfn);
    }
    assert!(machine.store(0, 103, 1).is_err());
    machine.check_end(0..1);
}

/// A copy after a fork is the pool's, too.
#[test]
fn copies_are_from_the_pool() {
    let mut machine = basic(PagePolicy::BASE, 15);
    map(&mut machine, 0, 0..10);
    for vpn in 0..10 {
        machine.store(0, vpn, vpn).unwrap();
    }
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    for vpn in 0..5 {
        machine.store(1, vpn, 1).unwrap();
    }
    assert!(machine.store(1, 5, 1).is_err());
    machine.check_contents();
    machine.check_end(0..2);
}

/// Frames of the pages of a range, as rows: how long each is.
fn rows(machine: &mut Machine<MapTable>, pages: std::ops::Range<u64>) -> Vec<u64> {
    let mut rows = Vec::new();
    let mut next = None;
    for vpn in pages {
        let pfn = frame(machine, vpn).map(|pfn| pfn.0);
        match rows.last_mut() {
            Some(row) if pfn.is_some() && pfn == next => *row += 1,
            _ => rows.push(1),
        }
        next = pfn.map(|pfn| pfn + 1);
    }
    rows
}

/// It is given 8 MiB at a time while a program has little.
#[test]
fn contiguous_memory_is_there_before_it_is_touched() {
    let mut machine = machine(PagePolicy::THP, ManagerConfig::Contiguous);
    map(&mut machine, 0, 2048..2048 + 4096);
    map(&mut machine, 0, 16384..16387);
    for vpn in (2048..2048 + 4096).chain(16384..16387) {
        assert!(frame(&mut machine, vpn).is_some());
        machine.store(0, vpn, vpn).unwrap();
    }
    let counts = statistics(&machine);
    assert_eq!((counts.faults, counts.populated.base), (0, 4099));
    // Two pieces of 8 MiB, and 3 pages of a block of 4.
    assert_eq!((counts.pieces[11], counts.pieces[2]), (2, 1));
    assert_eq!(counts.pieces.iter().sum::<u64>(), 3);
    assert_eq!(rows(&mut machine, 16384..16387), [3]);
    machine.check();
    machine.check_contents();
    machine.check_end(0..1);
}

/// Addresses at which the next 8 MiB begin part pieces (`ALIGN(start + 1, fbmm_fill(mm))`).
#[test]
fn pieces_end_where_addresses_do() {
    let mut machine = machine(PagePolicy::BASE, ManagerConfig::Contiguous);
    map(&mut machine, 0, 2000..2100);
    let pieces = statistics(&machine).pieces;
    // 48 pages, and 52.
    assert_eq!((pieces[6], pieces.iter().sum::<u64>()), (2, 2));
}

/// A hole that a program has punched is filled by the fault that touches it, 4 MiB at most; and so is what was mapped
/// without access.
#[test]
fn faults_fill_holes() {
    let mut machine = machine(PagePolicy::BASE, ManagerConfig::Contiguous);
    map(&mut machine, 0, 0..100);
    advise(&mut machine, 20..40, Advice::DontNeed);
    machine.store(0, 25, 1).unwrap();
    assert_eq!(frame(&mut machine, 24), None);
    assert_eq!(rows(&mut machine, 25..40), [15]);
    assert_eq!(machine.load(0, 39), Ok(0));
    assert_eq!(statistics(&machine).faults, 1);
    let none = Control::Map {
        addr: 4096 * PAGE_BYTES,
        len: 3000 * PAGE_BYTES,
        prot: Protection(0),
        backing: Backing::Anonymous,
        populate: false,
    };
    machine.control(0, none).unwrap();
    assert_eq!(frame(&mut machine, 4096), None);
    let allow = Control::Protect {
        addr: 4096 * PAGE_BYTES,
        len: 3000 * PAGE_BYTES,
        prot: support::READ_WRITE,
    };
    machine.control(0, allow).unwrap();
    machine.store(0, 4100, 1).unwrap();
    assert_eq!(rows(&mut machine, 4100..5124), [1024]);
    assert_eq!(frame(&mut machine, 5124), None);
    machine.check();
    machine.check_contents();
    machine.check_end(0..1);
}

/// `mmap()` does not fail; the touch of what was not there any more does.
#[test]
fn what_memory_does_not_have_is_missed_when_it_is_touched() {
    let mut machine = machine(PagePolicy::BASE, ManagerConfig::Contiguous);
    let frames = u64::from(machine.os.frames().buddy().count());
    map(&mut machine, 0, 0..frames + 100);
    machine.store(0, frames - 1000, 1).unwrap();
    assert!(machine.store(0, frames + 50, 1).is_err());
    machine.check();
    machine.check_end(0..1);
}

/// Entries are of 4 KiB, whatever the policy is, and MADV_COLLAPSE leaves them alone.
#[test]
fn no_page_is_huge() {
    for manager in [
        ManagerConfig::Contiguous,
        ManagerConfig::Basic {
            size: "50%".to_owned(),
        },
    ] {
        let mut machine = machine(PagePolicy::folio(4), manager);
        map(&mut machine, 0, 0..1024);
        for vpn in 0..1024 {
            machine.store(0, vpn, vpn).unwrap();
        }
        advise(&mut machine, 0..1024, Advice::COLLAPSE);
        let page = machine.page(0, 0);
        let size = machine.table.lookup(page).map(|found| found.size);
        assert_eq!(size, Some(PageSize::Base4K));
        assert_eq!(statistics(&machine).collapsed, 0);
    }
}

fn bandwidth(policy: PagePolicy, weights: &str) -> Machine<MapTable> {
    let memory = config(policy, 0.0);
    let node = NodeConfig {
        bytes: memory.memory_bytes / 2,
        latency_ns: 100.0,
        gigabytes_per_second: 10.0,
    };
    let config = OsConfig {
        nodes: vec![node; 2],
        manager: ManagerConfig::Bandwidth {
            weights: weights.to_owned(),
        },
        ..memory
    };
    Machine::new(config, MapTable::new(Placement::None))
}

/// The program's file, its bss and the first stack are exec's; heap, mappings and stacks of threads are the program's.
#[test]
fn nodes_give_what_a_program_maps_itself() {
    let mut machine = bandwidth(PagePolicy::BASE, "3:2");
    machine.control(0, Control::Exec).unwrap();
    map_of(&mut machine, 0, 1000..1010, Backing::PrivateFile);
    map(&mut machine, 0, 1010..1020);
    map_of(&mut machine, 0, 9000..9033, Backing::Stack);
    for vpn in (1000..1020).chain(9000..9033) {
        machine.store(0, vpn, 1).unwrap();
    }
    assert_eq!(statistics(&machine).placed, [0, 0]);
    for end in [2000, 2005] {
        let end = end * PAGE_BYTES;
        machine.control(0, Control::Brk { end }).unwrap();
    }
    map(&mut machine, 0, 3000..3010);
    map_of(&mut machine, 0, 8000..8005, Backing::Stack);
    for vpn in (2000..2005).chain(3000..3010).chain(8000..8005) {
        machine.store(0, vpn, 1).unwrap();
    }
    assert_eq!(statistics(&machine).placed, [12, 8]);
    // Copies are given as well, and what was given stays counted.
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    for vpn in 3000..3005 {
        machine.store(1, vpn, 2).unwrap();
    }
    machine.control(1, Control::Exit { status: 0 }).unwrap();
    assert_eq!(statistics(&machine).placed, [15, 10]);
    machine.check();
    machine.check_contents();
}

/// MADV_FREE gives pages back at once (`fbmm_dontneed`), and a page of 2 MiB is one turn of a round of its own.
#[test]
fn nodes_give_again_what_was_free() {
    let mut machine = bandwidth(PagePolicy::THP, "1:1");
    map(&mut machine, 0, 512..1536);
    map(&mut machine, 0, 2000..2010);
    for vpn in [512, 1024].into_iter().chain(2000..2010) {
        machine.store(0, vpn, 1).unwrap();
    }
    assert_eq!(statistics(&machine).placed, [517, 517]);
    advise(&mut machine, 2000..2004, Advice::Free);
    assert_eq!(frame(&mut machine, 2000), None);
    for vpn in 2000..2004 {
        assert_eq!(machine.load(0, vpn), Ok(0));
        machine.store(0, vpn, 2).unwrap();
    }
    assert_eq!(statistics(&machine).placed, [519, 519]);
    machine.check();
}
