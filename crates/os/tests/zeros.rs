//! Memory that was only read, and what a store makes of it.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Advice, Backing, Control};
use pagelab_os::{Accounting, OsConfig, PagePolicy};
use support::{Machine, MapTable, Placement, READ_WRITE, config, map};

/// Pages read first share a frame until they are written, as Linux's `do_anonymous_page` has it:
/// two faults each, and no memory for those that are only read.
#[test]
fn pages_that_are_only_read_take_no_memory() {
    let mut machine = Machine::new(
        config(PagePolicy::BASE, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    map(&mut machine, 0, 0..100);
    for vpn in 0..100 {
        assert_eq!(machine.load(0, vpn), Ok(0));
    }
    assert_eq!(machine.os.frames().data_frames(), 0);
    let event = Control::Remap {
        old_addr: 90 * PAGE_BYTES,
        old_len: 10 * PAGE_BYTES,
        new_addr: 200 * PAGE_BYTES,
        new_len: 10 * PAGE_BYTES,
    };
    machine.control(0, event).unwrap();
    for vpn in 0..40 {
        machine.store(0, vpn, vpn + 1).unwrap();
        assert_eq!(
            (machine.effects.pages_zeroed, machine.effects.pages_copied),
            (1, 0)
        );
    }
    machine.store(0, 205, 7).unwrap();
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.store(1, 50, 8).unwrap();
    assert_eq!(machine.load(0, 50), Ok(0));
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(statistics.faults, 100 + 40 + 1 + 1);
    assert_eq!(
        (statistics.zero_pages, statistics.anonymous.base),
        (100, 42)
    );
    assert_eq!((statistics.cow_copies, statistics.cow_reuses), (0, 0));
    assert_eq!(machine.os.resident_bytes(), 42 * PAGE_BYTES);
    machine.check();
    machine.check_contents();
    machine.check_end(0..2);
}

/// As Linux since 6.13: loads share a 2 MiB page of zeros, a store replaces it by a page of that
/// size, and what ends in the middle is split into 4 KiB pages of zeros.
#[test]
fn loads_of_huge_pages_share_one_of_zeros() {
    let mut machine = Machine::new(
        config(PagePolicy::THP, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    map(&mut machine, 0, 0..4 * 512);
    for region in 0..4 {
        for page in [300, 0, 511] {
            assert_eq!(machine.load(0, 512 * region + page), Ok(0));
        }
    }
    assert_eq!(machine.os.frames().data_frames(), 0);
    machine.store(0, 700, 1).unwrap();
    assert_eq!(machine.effects.pages_zeroed, 512);
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.store(1, 100, 2).unwrap();
    assert_eq!(machine.load(0, 100), Ok(0));
    // The third region ends in the middle.
    let unmap = Control::Unmap {
        addr: (1024 + 256) * PAGE_BYTES,
        len: 10 * PAGE_BYTES,
    };
    machine.control(0, unmap).unwrap();
    for page in [1024, 1024 + 255, 1024 + 266, 1535] {
        assert_eq!(machine.load(0, page), Ok(0));
    }
    machine.store(0, 1030, 3).unwrap();
    assert_eq!(machine.effects.pages_zeroed, 1);
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(statistics.zero_pages, 4);
    let anonymous = statistics.anonymous;
    assert_eq!((anonymous.large, anonymous.base), (2, 1));
    assert_eq!((statistics.splits.large, statistics.cow_copies), (1, 0));
    assert_eq!(machine.os.resident_bytes(), (2 * 512 + 1) * PAGE_BYTES);
    machine.check();
    machine.check_contents();
    machine.check_end(0..2);
}

/// Linux before 6.13 splits a page of zeros at the first store (`do_huge_pmd_wp_page`).
#[test]
fn linux_6_12_splits_a_huge_page_of_zeros() {
    let config = OsConfig {
        accounting: Accounting::PerPage,
        ..config(PagePolicy::THP, 0.0)
    };
    let mut machine = Machine::new(config, MapTable::new(Placement::Anywhere));
    map(&mut machine, 0, 0..512);
    assert_eq!(machine.load(0, 7), Ok(0));
    for vpn in [8, 9, 7] {
        machine.store(0, vpn, vpn).unwrap();
        assert_eq!(machine.effects.pages_zeroed, 1);
    }
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!((statistics.faults, statistics.zero_pages), (4, 1));
    let anonymous = statistics.anonymous;
    assert_eq!((anonymous.large, anonymous.base), (0, 3));
    assert_eq!((statistics.splits.large, statistics.fallbacks_2m), (1, 0));
    machine.check();
    machine.check_contents();
}

/// A store to a page of zeros finds no block of 2 MiB: it is split, and 4 KiB are enough.
#[test]
fn a_page_of_zeros_is_split_where_no_block_is_free() {
    let mut machine = Machine::new(
        config(PagePolicy::THP, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    map(&mut machine, 0, 0..512);
    assert_eq!(machine.load(0, 7), Ok(0));
    // All blocks are taken.
    let mut region = 2;
    while machine.os.frames().buddy().free_frames() >= 1024 {
        map(&mut machine, 0, region * 512..(region + 1) * 512);
        machine.store(0, region * 512, 1).unwrap();
        region += 1;
    }
    let advice = Control::Advise {
        addr: 1024 * PAGE_BYTES,
        len: 511 * PAGE_BYTES,
        advice: Advice::DontNeed,
    };
    while machine.os.frames().buddy().free_frames() >= 512 {
        map(&mut machine, 0, region * 512..region * 512 + 1);
        machine.store(0, region * 512, 1).unwrap();
        region += 1;
    }
    machine.control(0, advice).unwrap();
    machine.store(0, 8, 5).unwrap();
    assert_eq!(machine.effects.pages_zeroed, 1);
    assert_eq!((machine.load(0, 7), machine.load(0, 8)), (Ok(0), Ok(5)));
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(statistics.fallbacks_2m, 1);
    machine.check();
    machine.check_contents();
}

/// Memory that was left out, or never announced, may have been written.
#[test]
fn pages_of_which_little_is_known_have_frames_of_their_own() {
    let frames = |announced: bool, backing, skipped| {
        let mut machine = Machine::new(
            config(PagePolicy::BASE, 0.0),
            MapTable::new(Placement::Anywhere),
        );
        if announced {
            let event = Control::Map {
                addr: 0,
                len: 100 * PAGE_BYTES,
                prot: READ_WRITE,
                backing,
                populate: false,
            };
            machine.control(0, event).unwrap();
        }
        if skipped {
            let event = Control::Skipped {
                accesses: 10,
                instructions: 20,
            };
            machine.control(0, event).unwrap();
            machine.control(0, Control::Fork { child: 1 }).unwrap();
        }
        let process = u32::from(skipped);
        for vpn in 0..50 {
            machine.load(process, vpn).unwrap();
        }
        machine.check();
        machine.os.frames().data_frames()
    };
    assert_eq!(frames(true, Backing::Anonymous, false), 0);
    assert_eq!(frames(true, Backing::Anonymous, true), 50);
    assert_eq!(frames(true, Backing::Stack, false), 50);
    // Four windows of 16 pages of a file.
    assert_eq!(frames(true, Backing::PrivateFile, false), 64);
    assert_eq!(frames(false, Backing::Anonymous, false), 50);
}
