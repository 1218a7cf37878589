//! Blocks of 2 MiB made by moving pages together: who waits for them, and what is left of memory.

mod support;

use pagelab_addr::{PAGE_BYTES, Pfn};
use pagelab_events::{Advice, Control};
use pagelab_os::KernelThread::Kcompactd;
use pagelab_os::{CompactionStatistics, Defrag, KhugepagedConfig, OsConfig, PagePolicy};
use support::{Machine, MapTable, Placement, config, map};

const REGION: u64 = 512;

/// Memory half of which is in use, in every block of 2 MiB.
fn fragmented(policy: PagePolicy, defrag: Defrag) -> OsConfig {
    OsConfig {
        utilisation: 0.5,
        fragmentation: 1.0,
        unmovable_share: 0.0,
        defrag,
        ..config(policy, 0.5)
    }
}

fn machine(config: OsConfig) -> Machine<MapTable> {
    let machine = Machine::new(config, MapTable::new(Placement::None));
    assert_eq!(machine.os.frames().buddy().free_pageblocks(), 0);
    machine
}

fn advise(machine: &mut Machine<MapTable>, regions: u64, advice: Advice) {
    let event = Control::Advise {
        addr: 0,
        len: regions * REGION * PAGE_BYTES,
        advice,
    };
    machine.control(0, event).unwrap();
}

fn counts(machine: &Machine<MapTable>) -> CompactionStatistics {
    let statistics = machine.os.statistics(&machine.table);
    statistics.compaction.unwrap_or_default()
}

/// Stores to the first page of so many regions; how many have a huge page.
fn huge_pages(machine: &mut Machine<MapTable>, regions: u64) -> u64 {
    for region in 0..regions {
        machine.store(0, region * REGION, region + 1).unwrap();
    }
    machine.check();
    machine.check_contents();
    machine.os.statistics(&machine.table).anonymous.large
}

#[test]
fn a_fault_waits_where_the_setting_says_so() {
    for (defrag, advised, given) in [
        (Defrag::Never, true, 0),
        (Defrag::Madvise, false, 0),
        (Defrag::Madvise, true, 5),
        (Defrag::Always, false, 5),
    ] {
        let mut machine = machine(fragmented(PagePolicy::THP, defrag));
        map(&mut machine, 0, 0..5 * REGION);
        if advised {
            advise(&mut machine, 5, Advice::HugePage);
        }
        assert_eq!(huge_pages(&mut machine, 5), given, "{defrag:?} {advised}");
        let counts = counts(&machine);
        assert_eq!((counts.stalls, counts.made), (given, given));
    }
}

/// Programs' pages are moved as well, and keep what they have.
#[test]
fn what_others_have_is_moved() {
    let mut machine = machine(fragmented(PagePolicy::THP_MADVISE, Defrag::Madvise));
    map(&mut machine, 1, 0..3000);
    for vpn in 0..3000 {
        machine.store(1, vpn, vpn + 7).unwrap();
    }
    machine.control(1, Control::Fork { child: 2 }).unwrap();
    let frames = |machine: &mut Machine<MapTable>| -> Vec<Pfn> {
        let pages: Vec<_> = (0..3000).map(|vpn| machine.page(1, vpn)).collect();
        let found = pages.into_iter().map(|page| machine.table.lookup_pfn(page));
        found.collect()
    };
    let before = frames(&mut machine);
    map(&mut machine, 0, 0..8 * REGION);
    advise(&mut machine, 8, Advice::HugePage);
    assert_eq!(huge_pages(&mut machine, 8), 8);
    assert_ne!(frames(&mut machine), before);
    for vpn in 0..3000 {
        assert_eq!(machine.load(2, vpn), Ok(vpn + 7));
    }
    machine.check_end(0..3);
}

/// With a page in each block that may not move there is nothing to be had, and ever fewer try
/// (`compaction_deferred`).
#[test]
fn attempts_that_fail_are_put_off() {
    let config = OsConfig {
        unmovable_share: 1.0,
        ..fragmented(PagePolicy::THP, Defrag::Always)
    };
    let mut machine = machine(config);
    map(&mut machine, 0, 0..31 * REGION);
    assert_eq!(huge_pages(&mut machine, 31), 0);
    let counts = counts(&machine);
    // The 1st, 3rd, 7th and 15th of 31, and the 31st.
    assert_eq!((counts.stalls, counts.made, counts.pages_moved), (5, 0, 0));
}

#[test]
fn a_collapse_waits_whatever_the_setting_is() {
    let config = OsConfig {
        khugepaged: Some(KhugepagedConfig::default()),
        ..fragmented(PagePolicy::THP_MADVISE, Defrag::Never)
    };
    let mut machine = machine(config);
    map(&mut machine, 0, 0..2 * REGION);
    assert_eq!(huge_pages(&mut machine, 2), 0);
    advise(&mut machine, 2, Advice::HugePage);
    machine.tick().unwrap();
    machine.check();
    machine.check_contents();
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(statistics.khugepaged.unwrap_or_default().collapsed, 2);
    assert_eq!(counts(&machine).made, 2);
}

/// A block is made beside the program, for the next fault. Who waits gets one at once.
#[test]
fn kcompactd_makes_a_block_for_the_next_fault() {
    for (defrag, advised, waits) in [
        (Defrag::Defer, false, false),
        (Defrag::Defer, true, false),
        (Defrag::DeferMadvise, false, false),
        (Defrag::DeferMadvise, true, true),
    ] {
        let mut machine = machine(fragmented(PagePolicy::THP, defrag));
        map(&mut machine, 0, 0..6 * REGION);
        if advised {
            advise(&mut machine, 6, Advice::HugePage);
        }
        let mut given = Vec::new();
        for region in 0..6 {
            machine.store(0, region * REGION, region + 1).unwrap();
            given.push(machine.os.statistics(&machine.table).anonymous.large);
            if machine.os.wake(Kcompactd) {
                assert!(!machine.os.wake(Kcompactd), "it is awake");
                machine.work(Kcompactd);
            }
            assert!(!machine.os.is_awake(Kcompactd));
        }
        let counts = counts(&machine);
        if waits {
            assert_eq!(given, [1, 2, 3, 4, 5, 6]);
            assert_eq!((counts.stalls, counts.kcompactd), (6, None));
        } else {
            // Every fault takes the block that the one before has wanted, or wants one.
            assert_eq!(given, [0, 1, 1, 2, 2, 3]);
            let own = counts.kcompactd.unwrap();
            assert_eq!((own.wakes, own.made, counts.stalls), (3, 3, 0));
            assert!(own.pages_moved > 0 && counts.pages_moved == 0);
        }
        machine.check();
        machine.check_contents();
    }
}
