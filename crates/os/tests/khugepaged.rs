//! Pages that khugepaged collapses, by its settings.

mod support;

use pagelab_addr::{PAGE_BYTES, PageSize, Pfn};
use pagelab_events::{Advice, Control};
use pagelab_os::{KhugepagedConfig, OsConfig, PagePolicy};
use pagelab_translation::PageTable;
use proptest::prelude::*;
use support::{Machine, MapTable, Placement, config, map};

const REGION: u64 = 512;

/// A machine where huge pages are to be asked for.
fn machine(mib: u64, khugepaged: KhugepagedConfig) -> Machine<MapTable> {
    let config = OsConfig {
        memory_bytes: mib << 20,
        khugepaged: Some(khugepaged),
        ..config(PagePolicy::THP_MADVISE, 0.0)
    };
    Machine::new(config, MapTable::new(Placement::None))
}

/// Touches some pages at the start of each region, and asks for huge pages afterwards.
fn touch(machine: &mut Machine<MapTable>, regions: u64, pages: u64) {
    map(machine, 0, 0..regions * REGION);
    for region in 0..regions {
        for page in 0..pages {
            let vpn = region * REGION + page;
            machine.store(0, vpn, vpn + 1).unwrap();
        }
    }
    let advice = Control::Advise {
        addr: 0,
        len: regions * REGION * PAGE_BYTES,
        advice: Advice::HugePage,
    };
    machine.control(0, advice).unwrap();
}

/// Base pages resident after so many wakes.
fn resident(machine: &mut Machine<MapTable>, wakes: u32) -> u64 {
    for _ in 0..wakes {
        machine.tick().unwrap();
    }
    machine.check();
    machine.check_contents();
    machine.os.resident_bytes() / PAGE_BYTES
}

#[test]
fn one_page_a_region_becomes_512_or_stays_one() {
    for (max_ptes_none, pages) in [(511, 512), (510, 1), (0, 1)] {
        let mut machine = machine(
            256,
            KhugepagedConfig {
                max_ptes_none,
                ..KhugepagedConfig::default()
            },
        );
        touch(&mut machine, 100, 1);
        assert_eq!(machine.os.resident_bytes(), 100 * PAGE_BYTES);
        // 4,096 pages at a time are 8 regions.
        let settled = resident(&mut machine, 13);
        assert_eq!(settled, 100 * pages, "max_ptes_none {max_ptes_none}");
    }
}

#[test]
fn a_region_is_collapsed_from_the_page_on_that_the_limit_asks_for() {
    // 409 empty pages may be, so 103 have to be there.
    for (touched, collapsed) in [(102, 0), (103, 4)] {
        let mut machine = machine(
            32,
            KhugepagedConfig {
                max_ptes_none: 409,
                ..KhugepagedConfig::default()
            },
        );
        touch(&mut machine, 4, touched);
        resident(&mut machine, 1);
        let counts = machine
            .os
            .statistics(&machine.table)
            .khugepaged
            .unwrap_or_default();
        assert_eq!(counts.collapsed, collapsed, "{touched} pages");
        assert_eq!(counts.too_empty, 4 - collapsed);
        assert_eq!(counts.pages_copied, collapsed * touched);
    }
}

#[test]
fn it_goes_on_where_it_stopped() {
    let mut machine = machine(
        32,
        KhugepagedConfig {
            pages_to_scan: 2 * REGION as u32,
            ..KhugepagedConfig::default()
        },
    );
    touch(&mut machine, 5, 1);
    for made in [2, 4, 5] {
        assert_eq!(
            resident(&mut machine, 1),
            made * REGION + (5 - made),
            "pages"
        );
    }
}

#[test]
fn what_a_child_has_too_is_left_where_many_pages_are_shared() {
    for (max_ptes_shared, collapsed) in [(255, 0), (256, 1)] {
        let mut machine = machine(
            32,
            KhugepagedConfig {
                max_ptes_shared,
                ..KhugepagedConfig::default()
            },
        );
        touch(&mut machine, 1, 512);
        let fork = Control::Fork { child: 1 };
        machine.control(0, fork).unwrap();
        // The parent has copied half.
        for vpn in 0..256 {
            machine.store(0, vpn, vpn).unwrap();
        }
        machine.tick().unwrap();
        machine.check();
        machine.check_contents();
        let counts = machine
            .os
            .statistics(&machine.table)
            .khugepaged
            .unwrap_or_default();
        // The child has nothing that may be written.
        assert_eq!(counts.collapsed, collapsed);
    }
}

#[test]
fn without_a_block_it_sleeps_longer() {
    let mut machine = machine(32, KhugepagedConfig::default());
    assert_eq!(machine.os.tick_ns(), Some(1e10));
    touch(&mut machine, 1, 1);
    let frames = u64::from(machine.os.frames().buddy().count());
    map(&mut machine, 1, 0..frames);
    for vpn in 0..frames - 100 {
        machine.store(1, vpn, 1).unwrap();
    }
    machine.tick().unwrap();
    assert_eq!(machine.os.tick_ns(), Some(6e10));
    let exit = Control::Exit { status: 0 };
    machine.control(1, exit).unwrap();
    machine.tick().unwrap();
    assert_eq!(machine.os.tick_ns(), Some(1e10));
    assert_eq!(resident(&mut machine, 0), REGION);
}

#[test]
fn nothing_is_made_where_nobody_asked() {
    let mut machine = machine(32, KhugepagedConfig::default());
    map(&mut machine, 0, 0..REGION);
    machine.store(0, 3, 1).unwrap();
    assert_eq!(resident(&mut machine, 2), 1);
}

/// A machine on which folios of some sizes are made of what is there already.
fn with_folios(sizes: &str, max_ptes_none: u32) -> Machine<MapTable> {
    let khugepaged = KhugepagedConfig {
        max_ptes_none,
        mthp: true,
        ..KhugepagedConfig::default()
    };
    let config = OsConfig {
        khugepaged: Some(khugepaged),
        ..config(PagePolicy::try_from(sizes.to_owned()).unwrap(), 0.0)
    };
    Machine::new(config, MapTable::new(Placement::None))
}

fn frame(machine: &mut Machine<MapTable>, vpn: u64) -> Option<Pfn> {
    let page = machine.page(0, vpn);
    machine.table.lookup(page).map(|found| found.pfn)
}

/// Folios that a half of a half ... of a region should have, by their first pages: docs of Linux 7.2
/// (Documentation/admin-guide/mm/transhuge.rst) and the comment of `mthp_collapse`.
fn expected(
    present: &[bool],
    first: usize,
    order: u32,
    sizes: &[u32],
    max_ptes_none: usize,
) -> Vec<(usize, u32)> {
    let pages = 1 << order;
    let there = present[first..first + pages].iter();
    let there = there.filter(|&&present| present).count();
    let none = match order {
        9 => max_ptes_none,
        _ if max_ptes_none == 511 => pages - 1,
        _ => 0,
    };
    let enough = there >= pages - none;
    if sizes.contains(&order) && enough {
        return vec![(first, order)];
    }
    if !sizes.iter().any(|&size| size < order) {
        return Vec::new();
    }
    let half = 1 << (order - 1);
    let mut folios = expected(present, first, order - 1, sizes, max_ptes_none);
    folios.extend(expected(
        present,
        first + half,
        order - 1,
        sizes,
        max_ptes_none,
    ));
    folios
}

fn sizes() -> impl Strategy<Value = (&'static str, &'static [u32])> {
    prop_oneof![
        Just(("64K-madvise", &[4][..])),
        Just(("thp-madvise", &[9][..])),
        Just(("thp-madvise+64K-madvise", &[9, 4][..])),
        Just((
            "thp-madvise+1M-madvise+128K-madvise+16K-madvise",
            &[9, 8, 5, 2][..]
        )),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn folios_are_made_where_enough_is_there(
        (name, sizes) in sizes(),
        max_ptes_none in prop_oneof![Just(0), Just(255), Just(511)],
        runs in proptest::collection::vec((0usize..512, 1usize..200), 1..6),
        holes in proptest::collection::vec(0usize..512, 0..4),
    ) {
        let mut present = [false; 512];
        for (start, length) in runs {
            present[start..512.min(start + length)].fill(true);
        }
        for hole in holes {
            present[hole] = false;
        }
        let mut machine = with_folios(name, max_ptes_none);
        map(&mut machine, 0, 0..REGION);
        for vpn in (0..512).filter(|&vpn| present[vpn]) {
            machine.store(0, vpn as u64, vpn as u64 + 1).unwrap();
        }
        // Huge pages are asked for afterwards: what is there is of 4 KiB.
        let advice = Control::Advise { addr: 0, len: REGION * PAGE_BYTES, advice: Advice::HugePage };
        machine.control(0, advice).unwrap();
        let before: Vec<_> = (0..REGION).map(|vpn| frame(&mut machine, vpn)).collect();
        machine.tick().unwrap();
        machine.check();
        machine.check_contents();
        let folios = expected(&present, 0, 9, sizes, max_ptes_none as usize);
        let mut after = before.clone();
        for &(first, order) in &folios {
            let head = frame(&mut machine, first as u64).unwrap();
            prop_assert!(head.0.is_multiple_of(1 << order));
            for at in 0..1 << order {
                after[first + at] = Some(Pfn(head.0 + at as u32));
            }
            let page = machine.page(0, first as u64);
            let huge = machine.table.lookup(page).unwrap().size == PageSize::Large2M;
            prop_assert_eq!(huge, order == 9);
        }
        for vpn in 0..REGION {
            let page = machine.page(0, vpn);
            let found = machine.table.lookup(page).map(|found| found.pfn);
            prop_assert_eq!(found, after[vpn as usize], "{}", vpn);
        }
        let counts = machine.os.statistics(&machine.table).khugepaged.unwrap_or_default();
        let huge = folios.iter().filter(|(_, order)| *order == 9).count() as u64;
        prop_assert_eq!((counts.collapsed, counts.folios), (huge, folios.len() as u64 - huge));
        let copied: usize = folios.iter().map(|&(first, order)| {
            present[first..first + (1 << order)].iter().filter(|&&present| present).count()
        }).sum();
        prop_assert_eq!(counts.pages_copied, copied as u64);
        // A second look finds nothing to do: folios do not creep to the next size.
        machine.tick().unwrap();
        let again: Vec<_> = (0..REGION).map(|vpn| frame(&mut machine, vpn)).collect();
        prop_assert_eq!(again, after);
    }
}

/// A child's pages are in no folio smaller than 2 MiB, and a folio as large stays.
#[test]
fn parts_that_others_have_and_folios_stay() {
    let mut machine = with_folios("64K-madvise+32K-madvise", 511);
    map(&mut machine, 0, 0..REGION);
    for vpn in 0..64 {
        machine.store(0, vpn, vpn).unwrap();
    }
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    for vpn in 32..56 {
        machine.store(0, vpn, 1).unwrap();
    }
    let advice = Control::Advise {
        addr: 0,
        len: REGION * PAGE_BYTES,
        advice: Advice::HugePage,
    };
    machine.control(0, advice).unwrap();
    machine.tick().unwrap();
    machine.check();
    machine.check_contents();
    let counts = machine.os.statistics(&machine.table).khugepaged;
    // The pages 32 to 47 in one folio, 48 to 55 in one half as large.
    assert_eq!(counts.unwrap_or_default().folios, 2);
    machine.tick().unwrap();
    let counts = machine.os.statistics(&machine.table).khugepaged;
    assert_eq!(counts.unwrap_or_default().folios, 2);
    machine.check_end(0..2);
}

/// As until Linux 7.1: sizes below 2 MiB are for faults.
#[test]
fn without_the_setting_only_huge_pages_are_made() {
    for (mthp, folios) in [(false, 0), (true, 1)] {
        let khugepaged = KhugepagedConfig {
            mthp,
            ..KhugepagedConfig::default()
        };
        let policy = PagePolicy::folio_madvise(4);
        let config = OsConfig {
            khugepaged: Some(khugepaged),
            ..config(policy, 0.0)
        };
        let mut machine = Machine::new(config, MapTable::new(Placement::None));
        touch(&mut machine, 1, 1);
        machine.tick().unwrap();
        let counts = machine.os.statistics(&machine.table).khugepaged;
        assert_eq!(counts.unwrap_or_default().folios, folios);
        assert_eq!(machine.os.resident_bytes(), (1 + 15 * folios) * PAGE_BYTES);
    }
}
