//! Pages that leave memory when it is short: which do, and that they come back as they were.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Advice, Backing, Control, Protection};
use pagelab_os::{Os, OsConfig, OsError, PagePolicy, ReclaimConfig, ReclaimStatistics};
use support::{Machine, MapTable, Placement, advise, config, map, map_of};

/// A machine whose programs may have so many pages.
fn limited(policy: PagePolicy, max_pages: u64) -> Machine<MapTable> {
    with_swap(policy, max_pages, None)
}

fn with_swap(policy: PagePolicy, max_pages: u64, swap_pages: Option<u64>) -> Machine<MapTable> {
    let bytes = |pages: u64| pages * PAGE_BYTES;
    let reclaim = ReclaimConfig {
        max_bytes: Some(bytes(max_pages)),
        swap_bytes: swap_pages.map(bytes),
        ..ReclaimConfig::default()
    };
    let config = OsConfig {
        reclaim: Some(reclaim),
        ..config(policy, 0.0)
    };
    Machine::new(config, MapTable::new(Placement::None))
}

fn counts(machine: &Machine<MapTable>) -> ReclaimStatistics {
    let statistics = machine.os.statistics(&machine.table);
    statistics.reclaim.unwrap_or_default()
}

fn store_all(machine: &mut Machine<MapTable>, pages: std::ops::Range<u64>) {
    for vpn in pages {
        machine.store(0, vpn, vpn + 1).unwrap();
    }
}

#[test]
fn a_program_stays_below_its_limit_and_loses_nothing() {
    let mut machine = limited(PagePolicy::BASE, 100);
    map(&mut machine, 0, 0..1000);
    for vpn in 0..1000 {
        machine.store(0, vpn, vpn + 1).unwrap();
        assert!(machine.os.resident_bytes() <= 100 * PAGE_BYTES);
    }
    machine.check();
    let counts = counts(&machine);
    assert_eq!(counts.swapped_out, counts.in_swap);
    let resident = machine.os.resident_bytes() / PAGE_BYTES;
    assert_eq!(counts.in_swap + resident, 1000);
    for vpn in 0..1000 {
        assert_eq!(machine.load(0, vpn), Ok(vpn + 1));
    }
    machine.check_end(0..1);
}

#[test]
fn nothing_happens_below_the_limit() {
    let mut machine = limited(PagePolicy::BASE, 101);
    map(&mut machine, 0, 0..100);
    store_all(&mut machine, 0..100);
    assert_eq!(counts(&machine), ReclaimStatistics::default());
}

/// Pages used over and over stay, whatever streams by (mm/workingset.c).
#[test]
fn pages_in_use_stay_before_pages_that_stream_by() {
    let mut machine = limited(PagePolicy::BASE, 200);
    map(&mut machine, 0, 0..5_000);
    let mut faults_of_hot_pages = 0;
    for round in 0..49 {
        for hot in 0..50 {
            let before = counts(&machine).swapped_in;
            machine.store(0, hot, hot + 1).unwrap();
            // The processor's TLB forgets; what is mapped gets its accessed bit again.
            let page = machine.page(0, hot);
            machine.os.access(machine.table.lookup_pfn(page));
            if round > 4 {
                faults_of_hot_pages += counts(&machine).swapped_in - before;
            }
        }
        store_all(&mut machine, 100 + round * 100..200 + round * 100);
    }
    assert_eq!(faults_of_hot_pages, 0);
    assert!(counts(&machine).swapped_out > 4_000);
}

/// Pages that come back soon are active at once, so that a new working set takes the place of an old one that
/// was active (mm/workingset.c).
#[test]
fn a_new_working_set_takes_the_place_of_an_old_one() {
    let mut machine = limited(PagePolicy::BASE, 200);
    map(&mut machine, 0, 0..5_000);
    let touch = |machine: &mut Machine<MapTable>, pages: std::ops::Range<u64>| {
        for vpn in pages {
            machine.store(0, vpn, vpn + 1).unwrap();
            let page = machine.page(0, vpn);
            machine.os.access(machine.table.lookup_pfn(page));
        }
    };
    for round in 0..20 {
        touch(&mut machine, 0..100);
        touch(&mut machine, 2000 + round * 100..2100 + round * 100);
    }
    let mut swapped_in = 0;
    for _ in 0..30 {
        swapped_in = counts(&machine).swapped_in;
        touch(&mut machine, 1000..1180);
    }
    assert!(counts(&machine).reactivated > 0);
    assert_eq!(
        counts(&machine).swapped_in,
        swapped_in,
        "the new set is in memory"
    );
}

#[test]
fn without_swap_a_program_that_needs_more_ends() {
    let mut machine = with_swap(PagePolicy::BASE, 100, Some(0));
    map(&mut machine, 0, 0..101);
    store_all(&mut machine, 0..100);
    assert!(matches!(
        machine.store(0, 100, 1),
        Err(OsError::OutOfMemory { .. })
    ));
    machine.check();
    machine.check_contents();
}

#[test]
fn without_swap_pages_of_files_go() {
    let mut machine = with_swap(PagePolicy::BASE, 100, Some(0));
    map(&mut machine, 0, 0..80);
    map_of(&mut machine, 0, 1000..1100, Backing::PrivateFile);
    for vpn in 1000..1100 {
        machine.load(0, vpn).unwrap();
    }
    store_all(&mut machine, 0..80);
    machine.check();
    let before = counts(&machine);
    assert_eq!((before.swapped_out, before.files_written), (0, 0));
    assert!(before.files_dropped >= 80);
    for vpn in 1000..1100 {
        machine.load(0, vpn).unwrap();
    }
    assert!(counts(&machine).files_read > 0);
    machine.check_end(0..1);
}

#[test]
fn pages_of_a_file_that_were_written_are_written_to_it() {
    let mut machine = with_swap(PagePolicy::BASE, 100, Some(0));
    map_of(&mut machine, 0, 0..200, Backing::SharedFile);
    store_all(&mut machine, 0..200);
    let counts = counts(&machine);
    assert_eq!(counts.files_written, counts.files_dropped);
    assert!(counts.files_written >= 100);
}

#[test]
fn a_child_and_a_moved_range_have_what_was_swapped_out() {
    let mut machine = limited(PagePolicy::BASE, 600);
    map(&mut machine, 0, 0..400);
    store_all(&mut machine, 0..400);
    advise(&mut machine, 0..400, Advice::PAGE_OUT);
    assert_eq!(counts(&machine).in_swap, 400);
    assert_eq!(machine.os.resident_bytes(), 0);
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.store(0, 7, 70).unwrap();
    assert_eq!(machine.load(1, 7), Ok(8));
    let moves = Control::Remap {
        old_addr: 0,
        old_len: 400 * PAGE_BYTES,
        new_addr: 4096 * PAGE_BYTES,
        new_len: 400 * PAGE_BYTES,
    };
    machine.control(1, moves).unwrap();
    machine.check_contents();
    assert_eq!(machine.load(1, 4096 + 399), Ok(400));
    assert_eq!(machine.load(0, 7), Ok(70));
    machine.check_end(0..2);
}

#[test]
fn no_huge_page_covers_what_is_in_swap() {
    for (policy, collapses) in [(PagePolicy::THP, false), (PagePolicy::BASE, true)] {
        let mut machine = limited(policy, 2000);
        map(&mut machine, 0, 0..512);
        store_all(&mut machine, 0..512);
        advise(&mut machine, 0..512, Advice::PAGE_OUT);
        assert_eq!(counts(&machine).swapped_out, 512, "{policy}");
        // Nothing is kept of this one.
        advise(&mut machine, 3..4, Advice::DontNeed);
        machine.store(0, 3, 30).unwrap();
        if collapses {
            advise(&mut machine, 0..512, Advice::COLLAPSE);
        }
        assert_eq!(machine.os.resident_bytes(), PAGE_BYTES, "{policy}");
        machine.check_contents();
        assert_eq!(machine.load(0, 4), Ok(5));
    }
}

#[test]
fn memory_given_back_is_not_in_swap() {
    let mut machine = limited(PagePolicy::BASE, 600);
    map(&mut machine, 0, 0..300);
    store_all(&mut machine, 0..300);
    advise(&mut machine, 0..300, Advice::PAGE_OUT);
    advise(&mut machine, 0..100, Advice::DontNeed);
    assert_eq!(counts(&machine).in_swap, 200);
    assert_eq!(machine.load(0, 50), Ok(0));
    let unmap = Control::Unmap {
        addr: 100 * PAGE_BYTES,
        len: 200 * PAGE_BYTES,
    };
    machine.control(0, unmap).unwrap();
    assert_eq!(counts(&machine).in_swap, 0);
}

/// A huge page that nobody asked for is not worth waiting for (`vma_thp_gfp_mask`).
#[test]
fn small_pages_are_given_where_a_huge_one_would_have_to_wait() {
    for (advice, huge) in [(None, 1), (Some(Advice::HugePage), 2)] {
        let mut machine = limited(PagePolicy::THP, 1000);
        map(&mut machine, 0, 0..1024);
        if let Some(advice) = advice {
            advise(&mut machine, 0..1024, advice);
        }
        machine.store(0, 0, 1).unwrap();
        machine.store(0, 512, 2).unwrap();
        let statistics = machine.os.statistics(&machine.table);
        assert_eq!(statistics.anonymous.large, huge);
        machine.check_contents();
    }
}

#[test]
fn cold_pages_leave_first() {
    let mut machine = limited(PagePolicy::BASE, 200);
    map(&mut machine, 0, 0..1000);
    store_all(&mut machine, 0..200);
    advise(&mut machine, 100..140, Advice::COLD);
    store_all(&mut machine, 500..520);
    let os: &Os = &machine.os;
    let asid = Os::asid(0).unwrap();
    let swapped: Vec<u64> = (0..200)
        .filter(|&vpn| os.frames().is_swapped(asid, pagelab_addr::Vpn(vpn)))
        .collect();
    assert!(!swapped.is_empty());
    assert!(
        swapped.iter().all(|vpn| (100..140).contains(vpn)),
        "{swapped:?}"
    );
}

#[test]
fn code_is_kept_before_other_pages_of_files() {
    let mut machine = with_swap(PagePolicy::BASE, 200, Some(0));
    let code = Control::Map {
        addr: 0,
        len: 50 * PAGE_BYTES,
        prot: Protection(Protection::READ | Protection::EXEC),
        backing: Backing::PrivateFile,
        populate: false,
    };
    machine.control(0, code).unwrap();
    map_of(&mut machine, 0, 1000..4000, Backing::PrivateFile);
    for round in 0..30 {
        for vpn in 0..50 {
            machine.load(0, vpn).unwrap();
            let page = machine.page(0, vpn);
            machine.os.access(machine.table.lookup_pfn(page));
        }
        for vpn in 1000 + round * 100..1100 + round * 100 {
            machine.load(0, vpn).unwrap();
        }
    }
    let counts = counts(&machine);
    assert!(counts.files_dropped > 2_000);
    assert!(counts.files_read < 50, "{counts:?}");
}

/// A unit that was isolated and has moved since is left for the next time: what leaves is just what is written.
#[test]
fn a_page_that_a_shrinking_page_table_moves_is_left_where_it_is() {
    let mut machine = limited(PagePolicy::BASE, 100);
    machine.table.table = MapTable::new(Placement::Shrinking);
    map(&mut machine, 0, 0..1000);
    let mut moved = 0;
    for vpn in 0..1000 {
        machine.store(0, vpn, vpn + 1).unwrap();
        moved += machine.effects.work.displaced.len();
        machine.check();
    }
    assert!(moved > 100, "{moved}");
    let counts = counts(&machine);
    assert_eq!(counts.taken, counts.swapped_out);
    let resident = machine.os.resident_bytes() / PAGE_BYTES;
    assert_eq!(counts.in_swap + resident, 1000);
    machine.check_end(0..1);
}

/// Without a swap device only what need not be written can leave.
#[test]
fn what_is_called_free_leaves_unwritten_unless_it_is_used_again() {
    for policy in [PagePolicy::BASE, PagePolicy::THP] {
        let mut machine = with_swap(policy, 1600, Some(0));
        map(&mut machine, 0, 0..1536);
        store_all(&mut machine, 0..1536);
        advise(&mut machine, 512..1536, Advice::Free);
        assert_eq!(machine.os.resident_bytes(), 1536 * PAGE_BYTES);
        assert_eq!(machine.load(0, 512), Ok(513));
        for vpn in 512..600 {
            machine.store(0, vpn, vpn + 7).unwrap();
        }
        map(&mut machine, 0, 4096..4496);
        store_all(&mut machine, 4096..4496);
        machine.check();
        for vpn in 512..600 {
            assert_eq!(machine.load(0, vpn), Ok(vpn + 7), "{policy}");
        }
        for vpn in 0..512 {
            assert_eq!(machine.load(0, vpn), Ok(vpn + 1), "{policy}");
        }
        let lost = (600..1536).filter(|&vpn| machine.load(0, vpn) == Ok(0));
        assert!(lost.count() >= 300, "{policy}");
        let counts = counts(&machine);
        assert_eq!(counts.swapped_out, 0);
        assert!(counts.taken >= 300);
        machine.check_end(0..1);
    }
}

/// However often it is looked at.
#[test]
fn what_was_called_free_and_is_used_again_never_leaves() {
    let mut machine = with_swap(PagePolicy::BASE, 100, Some(0));
    map(&mut machine, 0, 0..100);
    store_all(&mut machine, 0..100);
    advise(&mut machine, 0..100, Advice::Free);
    store_all(&mut machine, 0..60);
    map(&mut machine, 0, 200..300);
    store_all(&mut machine, 200..240);
    assert!(machine.store(0, 240, 1).is_err());
    for vpn in 0..60 {
        assert_eq!(machine.load(0, vpn), Ok(vpn + 1));
    }
    assert_eq!(counts(&machine).taken, 40);
}

/// Also where its program has it leave at once.
#[test]
fn what_was_called_free_and_is_used_again_leaves_as_other_pages_do() {
    let mut machine = limited(PagePolicy::BASE, 100);
    map(&mut machine, 0, 0..20);
    store_all(&mut machine, 0..20);
    advise(&mut machine, 0..20, Advice::Free);
    for vpn in 0..12 {
        machine.store(0, vpn, vpn + 7).unwrap();
    }
    advise(&mut machine, 0..20, Advice::PAGE_OUT);
    assert_eq!(counts(&machine).swapped_out, 12);
    for vpn in 0..12 {
        assert_eq!(machine.load(0, vpn), Ok(vpn + 7));
    }
    assert_eq!(machine.load(0, 12), Ok(0));
    machine.check_end(0..1);
}

/// A part of a folio is parted from it, and what a child has, too, stays (`madvise_free_pte_range`).
#[test]
fn parts_of_folios_and_what_others_have() {
    let mut machine = with_swap(PagePolicy::folio(4), 64, Some(0));
    map(&mut machine, 0, 0..48);
    store_all(&mut machine, 0..48);
    advise(&mut machine, 4..32, Advice::Free);
    map(&mut machine, 0, 100..160);
    store_all(&mut machine, 100..140);
    for vpn in (0..4).chain(32..48) {
        assert_eq!(machine.load(0, vpn), Ok(vpn + 1));
    }
    machine.check_contents();
    let mut machine = with_swap(PagePolicy::BASE, 64, Some(0));
    map(&mut machine, 0, 0..60);
    store_all(&mut machine, 0..60);
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    advise(&mut machine, 0..60, Advice::Free);
    map(&mut machine, 1, 100..160);
    let stored = (100..160).map(|vpn| machine.store(1, vpn, 1));
    assert!(stored.into_iter().any(|done| done.is_err()));
    machine.check_contents();
}

/// Shared memory is in the swap device once, whoever maps it, and comes back to all.
#[test]
fn shared_memory_leaves_once_for_all_that_map_it() {
    let mut machine = limited(PagePolicy::BASE, 100);
    map_of(&mut machine, 0, 0..150, Backing::SharedAnonymous);
    store_all(&mut machine, 0..60);
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    for vpn in 0..60 {
        assert_eq!(machine.load(1, vpn), Ok(vpn + 1));
    }
    assert_eq!(counts(&machine).swapped_out, 0);
    store_all(&mut machine, 60..150);
    machine.check();
    let before = counts(&machine);
    let resident = machine.os.resident_bytes() / PAGE_BYTES;
    assert_eq!(before.in_swap + resident, 150);
    assert_eq!((before.files_dropped, before.swapped_in), (0, 0));
    machine.store(1, 3, 30).unwrap();
    for vpn in 0..150 {
        let contents = if vpn == 3 { 30 } else { vpn + 1 };
        assert_eq!(machine.load(0, vpn), Ok(contents));
        assert_eq!(machine.load(1, vpn), Ok(contents));
    }
    let after = counts(&machine);
    assert!(after.swapped_in >= before.in_swap);
    assert_eq!(after.files_read, 0);
    machine.check_end(0..2);
    assert_eq!(counts(&machine).in_swap, 0);
}

#[test]
fn shared_memory_stays_where_there_is_no_swap() {
    let mut machine = with_swap(PagePolicy::BASE, 100, Some(20));
    map_of(&mut machine, 0, 0..150, Backing::SharedAnonymous);
    store_all(&mut machine, 0..120);
    let full = machine.store(0, 120, 1);
    assert!(matches!(full, Err(OsError::OutOfMemory { .. })));
    assert_eq!(counts(&machine).in_swap, 20);
    machine.check_contents();
}
