//! Memory that is short: zeros that are given back.

use crate::common::{BASE, Cut, Event, map, run};
use pagelab_events::{Access, Op};
use pagelab_machine::MachineConfig;

/// A machine of 64 MiB.
fn machine(keys: &[&str]) -> MachineConfig {
    let mut all = vec!["memory.memory_bytes=64MiB".to_owned()];
    all.push("memory.utilisation=0".to_owned());
    all.extend(keys.iter().map(|&key| key.to_owned()));
    MachineConfig::load("dpt-paper", &all).unwrap()
}

/// Stores that cross into the next page count for both.
#[test]
fn pages_stored_to_are_kept_when_zeros_are_given_back() {
    let mut events = vec![map(BASE, 64 << 20)];
    for region in 0..32 {
        let at = BASE + region * (2 << 20);
        let store = |addr, op| {
            Event::Access(Access {
                addr,
                op,
                ..Access::default()
            })
        };
        events.push(store(at + 4092, Op::store(8)));
        events.push(store(at + 8192 * 3, Op::load(8)));
        events.push(store(at + 8192 * 5, Op::store(1)));
    }
    let keys = [
        "memory.page_policy=\"thp\"",
        "memory.reclaim.max_bytes=6400KiB",
        "memory.reclaim.swap_bytes=0",
        "memory.reclaim.shrink_underused=true",
        "memory.khugepaged.max_ptes_none=500",
    ];
    let result = run(&machine(&keys), "radix", &mut Cut::new(&events, 7));
    let counts = result.os.reclaim.unwrap();
    assert!(counts.underused_splits >= 2);
    assert_eq!(counts.zeros_freed, counts.underused_splits * 509);
}
