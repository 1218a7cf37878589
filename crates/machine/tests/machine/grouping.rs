//! Pages that cannot be moved, apart from those that can: huge pages that page tables leave.

use crate::common::{BASE, Cut, Event, map, run, store};
use pagelab_events::{Advice, Control};
use pagelab_machine::{MachineConfig, RunResult};

const REGION: u64 = 2 << 20;

/// A mapping with one page in each region, each of which needs a page table, while another fills memory and goes.
/// Then 20 huge pages are wanted in memory of 64 MiB.
fn run_with(keys: &[&str]) -> RunResult {
    let (sparse, dense, huge) = (BASE, BASE + (1 << 30), BASE + (2 << 30));
    let mut events = vec![map(sparse, 40 * REGION), map(dense, 40 * REGION)];
    for region in 0..40 {
        events.push(store(sparse + region * REGION));
        let pages = region * 300..region * 300 + 300;
        events.extend(pages.map(|page| store(dense + page * 4096)));
    }
    events.push(Event::Control(Control::Unmap {
        addr: dense,
        len: 40 * REGION,
    }));
    events.push(map(huge, 20 * REGION));
    events.push(Event::Control(Control::Advise {
        addr: huge,
        len: 20 * REGION,
        advice: Advice::HugePage,
    }));
    events.extend((0..20).map(|region| store(huge + region * REGION)));
    let mut all: Vec<String> = [
        "memory_bytes=64MiB",
        "utilisation=0",
        "page_policy=\"thp-madvise\"",
    ]
    .map(|key| format!("memory.{key}"))
    .to_vec();
    all.extend(keys.iter().map(|&key| key.to_owned()));
    let machine = MachineConfig::load("dpt-paper", &all).unwrap();
    run(&machine, "radix", &mut Cut::new(&events, 1000))
}

#[test]
fn huge_pages_are_left_where_page_tables_lie_together() {
    let scattered = run_with(&[]);
    let together = run_with(&["memory.grouping=\"mobility\""]);
    assert!(scattered.os.grouping.is_none());
    assert!(scattered.os.anonymous.large < 20);
    assert_eq!(together.os.anonymous.large, 20);
    let counts = together.os.grouping.unwrap();
    assert!((1..4).contains(&counts.unmovable_blocks));
    assert_eq!(counts.stolen, 0);
}

/// Data lie in the way of the region when the 101st page table is wanted, and are moved for what that costs.
#[test]
fn a_region_for_page_tables_grows_into_data() {
    let fill = |keys: &[&str]| {
        let mut events = vec![map(BASE, 1 << 30), map(BASE + (2 << 30), 56 << 20)];
        events.extend((0..14_200).map(|page| store(BASE + (2 << 30) + page * 4096)));
        events.extend((0..500).map(|region| store(BASE + region * REGION)));
        let mut all = vec![
            "memory.memory_bytes=64MiB".to_owned(),
            "memory.utilisation=0".to_owned(),
        ];
        all.extend(keys.iter().map(|&key| key.to_owned()));
        let machine = MachineConfig::load("dpt-paper", &all).unwrap();
        run(&machine, "radix", &mut Cut::new(&events, 1000))
    };
    let region = fill(&["memory.grouping=\"region\"", "cost.migrate_4k_ns=1000"]);
    let counts = region.os.grouping.unwrap();
    assert!(counts.unmovable_blocks >= 2 && counts.pages_moved > 0);
    assert_eq!(counts.stolen, 0);
    let off = fill(&["cost.migrate_4k_ns=1000"]);
    let cycles = region.cycles.causes.faults - off.cycles.causes.faults;
    // 2,660 cycles a page, and interrupts.
    let expected = counts.pages_moved * 2660;
    assert!(
        cycles >= expected && cycles < 2 * expected,
        "{cycles}, {expected}"
    );
}
