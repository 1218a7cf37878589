//! Pages that khugepaged collapses, by its settings.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Advice, Control};
use pagelab_os::{KhugepagedConfig, OsConfig, PagePolicy};
use support::{Machine, MapTable, Placement, config, map};

const REGION: u64 = 512;

/// A machine where huge pages are to be asked for.
fn machine(mib: u64, khugepaged: KhugepagedConfig) -> Machine<MapTable> {
    let config = OsConfig {
        memory_bytes: mib << 20,
        khugepaged: Some(khugepaged),
        ..config(PagePolicy::ThpMadvise, 0.0)
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
