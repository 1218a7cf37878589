//! Faults, fork, unmapping and moving by example.

mod support;

use pagelab_addr::{PAGE_BYTES, PageSize};
use pagelab_events::{Advice, Backing, Control, Protection};
use pagelab_os::{OsConfig, OsError, PagePolicy};
use pagelab_translation::{Frames, Radix, RadixConfig, Translation};
use support::{Machine, MapTable, Placement, READ_WRITE, config, map};

#[test]
fn memory_that_runs_out_is_named() {
    let config = OsConfig {
        utilisation: 0.5,
        ..config(PagePolicy::BASE, 0.0)
    };
    let mut machine = Machine::new(config, MapTable::new(Placement::Anywhere));
    let mut stored = 0;
    let error = loop {
        match machine.store(0, stored, stored) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    let OsError::OutOfMemory {
        resident_bytes,
        table_bytes,
        preallocated_bytes,
        limit_bytes,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(limit_bytes, 64 << 20);
    assert_eq!(preallocated_bytes, 32 << 20);
    assert_eq!(resident_bytes, stored * PAGE_BYTES);
    assert_eq!(resident_bytes + table_bytes, 32 << 20);
    machine.check();
    for vpn in 0..stored {
        assert_eq!(machine.load(0, vpn), Ok(vpn));
    }
}

#[test]
fn fork_copies_only_what_is_written() {
    let mut machine = Machine::new(
        config(PagePolicy::BASE, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    map(&mut machine, 0, 0..100);
    for vpn in 0..100 {
        machine.store(0, vpn, vpn + 1).unwrap();
    }
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    assert_eq!(machine.effects.entries_forked, 100);
    assert_eq!(machine.os.frames().data_frames(), 100);
    for vpn in 0..30 {
        machine.store(1, vpn, 1000).unwrap();
        assert_eq!(machine.effects.pages_copied, 1);
    }
    // The parent is alone with the pages that the child has copied, and needs no copy of them.
    for vpn in 0..40 {
        machine.store(0, vpn, 2000).unwrap();
        assert_eq!(machine.effects.pages_copied, u64::from(vpn >= 30));
    }
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!((statistics.cow_copies, statistics.cow_reuses), (40, 30));
    assert_eq!(machine.os.frames().data_frames(), 140);
    machine.control(1, Control::Exit { status: 0 }).unwrap();
    assert_eq!(machine.os.frames().data_frames(), 100);
    for vpn in 40..100 {
        machine.store(0, vpn, 3000).unwrap();
    }
    assert_eq!(machine.os.statistics(&machine.table).cow_copies, 40);
    machine.check();
    machine.check_contents();
}

/// The fork that copies most entries is kept, with the child's page tables: 700 pages lie in two of the last level.
#[test]
fn the_largest_fork_is_known() {
    let table = Radix::new(&RadixConfig::default(), 1).unwrap();
    let mut machine = Machine::new(config(PagePolicy::BASE, 0.0), table);
    let memory = Control::Map {
        addr: 0,
        len: 700 * PAGE_BYTES,
        prot: READ_WRITE,
        backing: Backing::Anonymous,
        populate: false,
    };
    machine.control(0, memory).unwrap();
    let largest = |machine: &Machine<Radix>| {
        let largest = machine.os.statistics(&machine.table).largest_fork;
        largest.map(|fork| (fork.entries, fork.table_pages))
    };
    assert_eq!(largest(&machine), None);
    for (child, touched, known) in [(1, 10, (10, 4)), (2, 700, (700, 5)), (3, 700, (700, 5))] {
        for vpn in 0..touched {
            machine.store(0, vpn, vpn).unwrap();
        }
        machine.control(0, Control::Fork { child }).unwrap();
        assert_eq!(largest(&machine), Some(known), "fork {child}");
    }
}

#[test]
fn a_large_page_is_split_and_only_the_part_written_copied() {
    let mut machine = Machine::new(
        config(PagePolicy::THP, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    map(&mut machine, 0, 512..1536);
    machine.store(0, 512, 1).unwrap();
    assert_eq!(machine.effects.pages_mapped, [0, 1, 0]);
    assert_eq!(machine.effects.pages_zeroed, 512);
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    assert_eq!(machine.effects.entries_forked, 1);
    machine.store(1, 700, 2).unwrap();
    assert_eq!(machine.effects.pages_copied, 1);
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!((statistics.splits.large, statistics.cow_copies), (1, 1));
    assert_eq!(machine.os.frames().data_frames(), 513);
    machine.check();
    machine.check_contents();
}

#[test]
fn part_of_a_large_page_is_unmapped_and_its_frames_are_free_with_the_rest() {
    let mut machine = Machine::new(
        config(PagePolicy::THP, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    map(&mut machine, 0, 512..1024);
    machine.store(0, 512, 1).unwrap();
    let event = Control::Unmap {
        addr: 600 * PAGE_BYTES,
        len: 100 * PAGE_BYTES,
    };
    machine.control(0, event).unwrap();
    // The page has been split before; the folio has not.
    assert_eq!(machine.effects.entries_unmapped, 100);
    assert_eq!(machine.effects.frames_freed, 0);
    assert_eq!(machine.os.frames().data_frames(), 512);
    assert_eq!(machine.load(0, 512), Ok(1));
    machine.check();
    let rest = Control::Unmap {
        addr: 512 * PAGE_BYTES,
        len: 512 * PAGE_BYTES,
    };
    machine.control(0, rest).unwrap();
    assert_eq!(machine.effects.frames_freed, 512);
    assert_eq!(machine.os.frames().data_frames(), 0);
    machine.check();
}

#[test]
fn without_a_free_block_a_large_page_falls_back_once_a_region() {
    let mut machine = Machine::new(
        OsConfig {
            utilisation: 0.5,
            fragmentation: 1.0,
            ..config(PagePolicy::THP, 0.0)
        },
        MapTable::new(Placement::Anywhere),
    );
    map(&mut machine, 0, 512..1536);
    for vpn in 512..1536 {
        machine.store(0, vpn, 1).unwrap();
    }
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(statistics.fallbacks_2m, 2);
    assert_eq!(
        (statistics.anonymous.base, statistics.anonymous.large),
        (1024, 0)
    );
}

#[test]
fn advice_decides_about_large_pages() {
    let large = |policy, advice: &[Advice]| {
        let mut machine = Machine::new(config(policy, 0.0), MapTable::new(Placement::Anywhere));
        map(&mut machine, 0, 512..1024);
        for &advice in advice {
            let event = Control::Advise {
                addr: 512 * PAGE_BYTES,
                len: 512 * PAGE_BYTES,
                advice,
            };
            machine.control(0, event).unwrap();
        }
        machine.store(0, 600, 1).unwrap();
        machine.effects.pages_mapped == [0, 1, 0]
    };
    assert!(large(PagePolicy::THP, &[]));
    assert!(!large(PagePolicy::THP, &[Advice::NoHugePage]));
    assert!(!large(PagePolicy::THP_MADVISE, &[]));
    assert!(large(PagePolicy::THP_MADVISE, &[Advice::HugePage]));
    assert!(!large(
        PagePolicy::THP_MADVISE,
        &[Advice::HugePage, Advice::NoHugePage]
    ));
    assert!(!large(PagePolicy::BASE, &[Advice::HugePage]));
}

#[test]
fn a_gigabyte_page_where_one_fits_and_smaller_ones_around() {
    let gib = u64::from(PageSize::Huge1G.base_pages());
    let mut machine = Machine::new(
        OsConfig {
            memory_bytes: 3 << 30,
            page_policy: PagePolicy::HUGE_1G,
            ..OsConfig::default()
        },
        MapTable::new(Placement::Anywhere),
    );
    map(&mut machine, 0, gib - 600..2 * gib + 100);
    machine.store(0, gib + 5, 7).unwrap();
    assert_eq!(machine.effects.pages_mapped, [0, 0, 1]);
    machine.store(0, gib - 1, 8).unwrap();
    assert_eq!(machine.effects.pages_mapped, [0, 1, 0]);
    machine.store(0, 2 * gib, 9).unwrap();
    assert_eq!(machine.effects.pages_mapped, [1, 0, 0]);
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.store(1, gib + 5, 10).unwrap();
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(
        (
            statistics.splits.huge,
            statistics.splits.large,
            statistics.cow_copies
        ),
        (1, 1, 1)
    );
    assert_eq!(machine.load(0, gib + 5), Ok(7));
    assert_eq!(machine.load(1, gib + 5), Ok(10));
    machine.check();
    machine.check_end(0..2);
}

#[test]
fn memory_without_events_appears_in_2_mib_pieces_and_is_not_stray() {
    let mut machine = Machine::new(
        config(PagePolicy::THP, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    machine.load(0, 5000).unwrap();
    assert_eq!(machine.effects.pages_mapped, [0, 1, 0]);
    assert_eq!(machine.os.statistics(&machine.table).stray_touches, 0);
}

#[test]
fn touches_outside_announced_memory_are_counted_and_mapped() {
    let mut machine = Machine::new(
        config(PagePolicy::THP, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    map(&mut machine, 0, 0..10);
    machine.store(0, 5000, 1).unwrap();
    machine.store(0, 5000, 2).unwrap();
    machine.load(0, 5001).unwrap();
    assert_eq!(machine.os.statistics(&machine.table).stray_touches, 2);
    assert_eq!(machine.os.frames().data_frames(), 2);
    machine.check_contents();
}

#[test]
fn a_stack_grows_down_to_its_limit() {
    let mut machine = Machine::new(
        OsConfig {
            stack_limit: 1 << 20,
            ..config(PagePolicy::BASE, 0.0)
        },
        MapTable::new(Placement::Anywhere),
    );
    let event = Control::Map {
        addr: 10_000 * PAGE_BYTES,
        len: 16 * PAGE_BYTES,
        prot: READ_WRITE,
        backing: Backing::Stack,
        populate: false,
    };
    machine.control(0, event).unwrap();
    machine.load(0, 10_016 - 256).unwrap();
    assert_eq!(machine.os.statistics(&machine.table).stray_touches, 0);
    machine.load(0, 10_016 - 257).unwrap();
    assert_eq!(machine.os.statistics(&machine.table).stray_touches, 1);
}

#[test]
fn populating_maps_without_faults() {
    let mut machine = Machine::new(
        config(PagePolicy::THP, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    let event = Control::Map {
        addr: 500 * PAGE_BYTES,
        len: 600 * PAGE_BYTES,
        prot: READ_WRITE,
        backing: Backing::Anonymous,
        populate: true,
    };
    machine.control(0, event).unwrap();
    assert_eq!(machine.effects.pages_mapped, [88, 1, 0]);
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(
        (
            statistics.faults,
            statistics.populated.base,
            statistics.populated.large
        ),
        (0, 88, 1)
    );
    machine.check();
}

#[test]
fn shared_memory_lives_as_long_as_someone_shows_it() {
    let mut machine = Machine::new(
        config(PagePolicy::BASE, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    let event = Control::Map {
        addr: 0,
        len: 10 * PAGE_BYTES,
        prot: READ_WRITE,
        backing: Backing::SharedAnonymous,
        populate: false,
    };
    machine.control(0, event).unwrap();
    machine.store(0, 3, 33).unwrap();
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.store(1, 4, 44).unwrap();
    assert_eq!(machine.load(0, 4), Ok(44));
    machine.control(0, Control::Exit { status: 0 }).unwrap();
    assert_eq!(machine.os.frames().data_frames(), 2);
    assert_eq!(machine.load(1, 3), Ok(33));
    assert_eq!(machine.effects.pages_zeroed, 0);
    machine.control(1, Control::Exit { status: 0 }).unwrap();
    assert_eq!(machine.os.frames().data_frames(), 0);
}

#[test]
fn a_large_page_that_cannot_be_split_stays_whole_for_all_who_map_it() {
    for maps_left in [0, 100, 511, 512, 700, 1023, 1500] {
        let mut machine =
            Machine::new(config(PagePolicy::THP, 0.0), MapTable::new(Placement::None));
        map(&mut machine, 0, 512..1024);
        machine.store(0, 512, 1).unwrap();
        machine.control(0, Control::Fork { child: 1 }).unwrap();
        machine.control(0, Control::Fork { child: 2 }).unwrap();
        machine.table.maps_left = maps_left;
        let error = machine.store(1, 600, 2).unwrap_err();
        assert!(
            matches!(error, OsError::NoPlace { process: 0..3, .. }),
            "{error}"
        );
        machine.check();
        machine.check_contents();
        assert_eq!(machine.table.entries().count(), 3);
        machine.store(1, 600, 2).unwrap();
        machine.check_contents();
    }
}

#[test]
fn shared_memory_that_nothing_maps_can_be_displaced() {
    let mut machine = Machine::new(
        config(PagePolicy::BASE, 0.0),
        MapTable::new(Placement::None),
    );
    let event = Control::Map {
        addr: 0,
        len: PAGE_BYTES,
        prot: READ_WRITE,
        backing: Backing::SharedAnonymous,
        populate: false,
    };
    machine.control(0, event).unwrap();
    machine.store(0, 0, 5).unwrap();
    let (_, Translation { pfn, .. }) = machine.table.entries().next().unwrap();
    let advice = Advice::DontNeed;
    machine
        .control(
            0,
            Control::Advise {
                addr: 0,
                len: PAGE_BYTES,
                advice,
            },
        )
        .unwrap();
    let displaced = machine.os.frames_mut().displace(pfn).unwrap();
    assert_eq!((displaced.from, displaced.owners.len()), (pfn, 0));
    machine.table.contents.insert(displaced.to, 5);
    machine.table.contents.remove(&pfn);
    assert_eq!(machine.load(0, 0), Ok(5));
}

#[test]
fn a_page_table_never_takes_the_frame_that_it_maps() {
    let mut machine = Machine::new(
        config(PagePolicy::THP, 0.0),
        MapTable::new(Placement::Hostile),
    );
    map(&mut machine, 0, 512..1024);
    map(&mut machine, 0, 2048..2049);
    machine.store(0, 512, 1).unwrap();
    machine.store(0, 2048, 2).unwrap();
    let remap = Control::Remap {
        old_addr: 2048 * PAGE_BYTES,
        old_len: PAGE_BYTES,
        new_addr: 4096 * PAGE_BYTES,
        new_len: PAGE_BYTES,
    };
    machine.control(0, remap).unwrap();
    machine.check();
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.check();
    machine.store(1, 600, 3).unwrap();
    machine.check();
    machine.check_contents();
}

#[test]
fn parts_of_shared_memory_stay_what_they_were() {
    let mut machine = Machine::new(
        config(PagePolicy::BASE, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    let event = Control::Map {
        addr: 0,
        len: 12 * PAGE_BYTES,
        prot: READ_WRITE,
        backing: Backing::SharedAnonymous,
        populate: false,
    };
    machine.control(0, event).unwrap();
    for vpn in 0..12 {
        machine.store(0, vpn, 100 + vpn).unwrap();
    }
    let page = |vpn: u64| (vpn * PAGE_BYTES, PAGE_BYTES);
    let (addr, len) = page(3);
    machine.control(0, Control::Unmap { addr, len }).unwrap();
    let (addr, len) = page(5);
    let prot = Protection(Protection::READ);
    machine
        .control(0, Control::Protect { addr, len, prot })
        .unwrap();
    machine
        .control(
            0,
            Control::Protect {
                addr,
                len,
                prot: READ_WRITE,
            },
        )
        .unwrap();
    let (addr, len) = page(7);
    let advice = Advice::NoHugePage;
    machine
        .control(0, Control::Advise { addr, len, advice })
        .unwrap();
    let (old_addr, old_len) = page(9);
    let new_addr = 50 * PAGE_BYTES;
    let event = Control::Remap {
        old_addr,
        old_len,
        new_addr,
        new_len: 2 * PAGE_BYTES,
    };
    machine.control(0, event).unwrap();
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    for vpn in (0..12).filter(|vpn| ![3, 9].contains(vpn)) {
        assert_eq!(machine.load(1, vpn), Ok(100 + vpn));
    }
    // Page 9 has moved, and the one after it shows the object's next page.
    assert_eq!(machine.load(1, 50), Ok(109));
    assert_eq!(machine.load(1, 51), Ok(110));
}

#[test]
fn a_large_page_does_not_reach_over_its_vma() {
    let mut machine = Machine::new(
        config(PagePolicy::THP, 0.0),
        MapTable::new(Placement::Anywhere),
    );
    map(&mut machine, 0, 512..1024);
    machine.store(0, 512, 1).unwrap();
    let (addr, len) = (600 * PAGE_BYTES, 512 * PAGE_BYTES);
    let advice = Advice::NoHugePage;
    machine
        .control(0, Control::Advise { addr, len, advice })
        .unwrap();
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    assert_eq!(machine.effects.entries_forked, 512);
    machine.check();
    assert_eq!(machine.load(1, 512), Ok(1));
}

#[test]
fn a_process_number_beyond_16_bits_is_refused() {
    let mut machine = Machine::new(
        config(PagePolicy::BASE, 0.0),
        MapTable::new(Placement::None),
    );
    let error = machine
        .control(0, Control::Fork { child: 70_000 })
        .unwrap_err();
    assert_eq!(error, OsError::TooManyProcesses(70_000));
}
