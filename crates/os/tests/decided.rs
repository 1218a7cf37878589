//! Decisions of a program about its memory.

mod support;

use pagelab_addr::PageSize;
use pagelab_events::{Advice, Control, HugePages};
use pagelab_os::{OsStatistics, PagePolicy};
use std::ops::Range;
use support::{Machine, MapTable, Placement, advise, config, map};

const BLOCK: u64 = 512;

fn machine(policy: PagePolicy) -> Machine<MapTable> {
    Machine::new(config(policy, 0.0), MapTable::new(Placement::Anywhere))
}

fn allow(machine: &mut Machine<MapTable>, process: u32, allowed: HugePages) {
    let event = Control::HugePages { allowed };
    machine.control(process, event).unwrap();
}

fn store(machine: &mut Machine<MapTable>, process: u32, pages: Range<u64>) {
    for vpn in pages {
        machine.store(process, vpn, vpn).unwrap();
    }
}

fn statistics(machine: &Machine<MapTable>) -> OsStatistics {
    machine.os.statistics(&machine.table)
}

fn faults(machine: &Machine<MapTable>) -> u64 {
    statistics(machine).faults
}

/// Natively, 64 MiB with MADV_HUGEPAGE take 16,384 faults after PR_SET_THP_DISABLE and 32
/// otherwise: 512 and one a block.
#[test]
fn a_program_that_forbids_itself_huge_pages_gets_none() {
    let blocks = 16;
    for (allowed, expected) in [
        (HugePages::Anywhere, blocks),
        (HugePages::Nowhere, blocks * BLOCK),
        (HugePages::WhereAdvised, blocks),
    ] {
        let mut machine = machine(PagePolicy::THP);
        allow(&mut machine, 0, allowed);
        map(&mut machine, 0, BLOCK..(1 + blocks) * BLOCK);
        advise(&mut machine, BLOCK..(1 + blocks) * BLOCK, Advice::HugePage);
        store(&mut machine, 0, BLOCK..(1 + blocks) * BLOCK);
        assert_eq!(faults(&machine), expected, "{allowed:?}");
        machine.check();
    }
}

#[test]
fn without_advice_huge_pages_may_be_forbidden_too() {
    for (policy, pages) in [(PagePolicy::THP, BLOCK), (PagePolicy::folio(4), 16)] {
        let mut machine = machine(policy);
        allow(&mut machine, 0, HugePages::WhereAdvised);
        map(&mut machine, 0, BLOCK..3 * BLOCK);
        store(&mut machine, 0, BLOCK..2 * BLOCK);
        assert_eq!(faults(&machine), BLOCK);
        // From now on.
        allow(&mut machine, 0, HugePages::Anywhere);
        store(&mut machine, 0, 2 * BLOCK..3 * BLOCK);
        assert_eq!(faults(&machine), BLOCK + BLOCK / pages, "{policy}");
        machine.check();
    }
}

/// PR_SET_THP_DISABLE(2const): fork inherits it, execve keeps it.
#[test]
fn forks_and_what_they_execute_inherit_it() {
    let mut machine = machine(PagePolicy::THP);
    allow(&mut machine, 0, HugePages::Nowhere);
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.control(1, Control::Exec).unwrap();
    for process in [0, 1] {
        map(&mut machine, process, BLOCK..2 * BLOCK);
        store(&mut machine, process, BLOCK..2 * BLOCK);
    }
    assert_eq!(faults(&machine), 2 * BLOCK);
    // A process that begins anew under that number has nothing of it.
    machine.control(1, Control::Exit { status: 0 }).unwrap();
    map(&mut machine, 1, BLOCK..2 * BLOCK);
    store(&mut machine, 1, BLOCK..2 * BLOCK);
    assert_eq!(faults(&machine), 2 * BLOCK + 1);
    machine.check();
}

fn size_at(machine: &mut Machine<MapTable>, vpn: u64) -> PageSize {
    use pagelab_translation::PageTable;
    let page = machine.page(0, vpn);
    machine.table.lookup(page).expect("it is mapped").size
}

/// Whatever the policy says, and at once: of what is mapped in part, too, but for what the program does not
/// want so, what has only been read, and what was never touched.
#[test]
fn collapsing_makes_huge_pages_of_small_ones() {
    let mut machine = machine(PagePolicy::BASE);
    map(&mut machine, 0, BLOCK..7 * BLOCK);
    store(&mut machine, 0, BLOCK..2 * BLOCK);
    store(&mut machine, 0, 2 * BLOCK + 7..2 * BLOCK + 8);
    machine.load(0, 2 * BLOCK + 8).unwrap();
    machine.load(0, 3 * BLOCK).unwrap();
    store(&mut machine, 0, 5 * BLOCK..6 * BLOCK);
    advise(&mut machine, 5 * BLOCK..6 * BLOCK, Advice::NoHugePage);
    store(&mut machine, 0, 6 * BLOCK..7 * BLOCK);
    let before = faults(&machine);
    // The last region is not wholly advised.
    advise(&mut machine, BLOCK..7 * BLOCK - 1, Advice::COLLAPSE);
    assert_eq!(statistics(&machine).collapsed, 2);
    // 513 stores were there, of 1,024 pages.
    let copied = machine.effects.pages_copied;
    let zeroed = machine.effects.pages_zeroed;
    assert_eq!((copied, zeroed), (513, 511));
    for (block, size) in [
        (1, PageSize::Large2M),
        (3, PageSize::Base4K),
        (5, PageSize::Base4K),
        (6, PageSize::Base4K),
    ] {
        assert_eq!(size_at(&mut machine, block * BLOCK), size, "{block}");
    }
    store(&mut machine, 0, 2 * BLOCK..3 * BLOCK);
    assert_eq!(faults(&machine), before, "all of it is there");
    machine.check();
    machine.check_contents();
    // Again there is nothing to do.
    advise(&mut machine, BLOCK..3 * BLOCK, Advice::COLLAPSE);
    assert_eq!(statistics(&machine).collapsed, 2);
}

#[test]
fn a_process_that_forbids_huge_pages_collapses_none() {
    let collapsed = |allowed| {
        let mut machine = machine(PagePolicy::BASE);
        allow(&mut machine, 0, allowed);
        map(&mut machine, 0, BLOCK..2 * BLOCK);
        store(&mut machine, 0, BLOCK..2 * BLOCK);
        advise(&mut machine, BLOCK..2 * BLOCK, Advice::COLLAPSE);
        statistics(&machine).collapsed
    };
    assert_eq!(collapsed(HugePages::Nowhere), 0);
    assert_eq!(collapsed(HugePages::WhereAdvised), 1);
}

/// Pages that a fork shares are copied, and the other process keeps its own.
#[test]
fn collapsing_takes_a_copy_of_what_others_have() {
    let mut machine = machine(PagePolicy::BASE);
    map(&mut machine, 0, BLOCK..2 * BLOCK);
    store(&mut machine, 0, BLOCK..2 * BLOCK);
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    machine.store(0, BLOCK, 1).unwrap();
    advise(&mut machine, BLOCK..2 * BLOCK, Advice::COLLAPSE);
    assert_eq!(statistics(&machine).collapsed, 1);
    machine.store(0, BLOCK + 1, 2).unwrap();
    assert_eq!(machine.load(1, BLOCK + 1), Ok(BLOCK + 1));
    machine.check();
    machine.check_contents();
}

#[test]
fn reading_pages_in_advance_maps_zeros_and_writing_them_memory() {
    for (advice, resident) in [(Advice::POPULATE_READ, 0), (Advice::Populate, 100)] {
        let mut machine = machine(PagePolicy::BASE);
        map(&mut machine, 0, 0..100);
        advise(&mut machine, 0..100, advice);
        assert_eq!(machine.os.frames().data_frames(), resident);
        // Reading took no fault; writing still does if there are only zeros.
        machine.load(0, 5).unwrap();
        assert_eq!(faults(&machine), 0);
        advise(&mut machine, 0..100, Advice::Populate);
        store(&mut machine, 0, 0..100);
        assert_eq!(faults(&machine), 0);
        assert_eq!(machine.os.frames().data_frames(), 100);
        machine.check();
    }
}

/// `wipe.c` of the same natively: the child's memory reads as zeros, and what it left out is not there.
#[test]
fn a_fork_has_of_memory_what_was_advised() {
    let mut machine = machine(PagePolicy::BASE);
    map(&mut machine, 0, 0..30);
    store(&mut machine, 0, 0..30);
    advise(&mut machine, 0..10, Advice::WIPE_ON_FORK);
    advise(&mut machine, 10..20, Advice::DONT_FORK);
    let fork = |machine: &mut Machine<MapTable>| {
        let before = statistics(machine).entries_forked;
        // The processes of the tests know of no such advice.
        let event = Control::Fork { child: 1 };
        let (os, table) = (&mut machine.os, &mut machine.table);
        os.control(
            table,
            &mut machine.directory,
            0,
            &event,
            &mut machine.effects,
        )
        .unwrap();
        statistics(machine).entries_forked - before
    };
    assert_eq!(fork(&mut machine), 10);
    advise(&mut machine, 0..10, Advice::KEEP_ON_FORK);
    advise(&mut machine, 10..20, Advice::DO_FORK);
    assert_eq!(fork(&mut machine), 30);
}

/// Linux splits a huge page of which a part is to go when memory is short (`madvise_free_huge_pmd`,
/// `madvise_cold_or_pageout_pte_range`).
#[test]
fn pages_that_may_go_in_part_are_split() {
    for advice in [Advice::Free, Advice::COLD, Advice::PAGE_OUT] {
        let mut machine = machine(PagePolicy::THP);
        map(&mut machine, 0, BLOCK..3 * BLOCK);
        store(&mut machine, 0, BLOCK..3 * BLOCK);
        advise(&mut machine, BLOCK..2 * BLOCK + 10, advice);
        assert_eq!(size_at(&mut machine, BLOCK), PageSize::Large2M);
        assert_eq!(size_at(&mut machine, 2 * BLOCK), PageSize::Base4K);
        assert_eq!(faults(&machine), 2);
        machine.check();
    }
}
