//! Helpers of the tests of designs around the TLB.

use crate::common::{BASE, Cut, Event, but_the_design, load, machine, map, run, small_machine};
use pagelab_machine::{MachineConfig, PrefetchConfig, RunResult, WalksEnter, simulate};
use pagelab_os::PagePolicy;
use proptest::prelude::*;
use std::ops::ControlFlow;

/// Machines with which a design that does nothing has to be the page table that it is around.
pub(crate) fn small_machines() -> impl Strategy<Value = MachineConfig> {
    let policy = prop_oneof![Just(PagePolicy::BASE), Just(PagePolicy::THP)];
    let enter = prop_oneof![Just(WalksEnter::L1), Just(WalksEnter::L2)];
    let busy = proptest::option::of(proptest::option::of(0.05..0.9f64));
    (1u32..3, policy, enter, busy).prop_map(|(cores, policy, enter, busy)| {
        let mut config = small_machine();
        config.cores = cores;
        config.memory.page_policy = policy;
        config.caches.walks_enter = enter;
        config.caches.prefetch = busy.map(|busy| PrefetchConfig {
            adjacent: true,
            streams: 8,
            ahead: 10,
            busy,
            ..PrefetchConfig::NONE
        });
        config
    })
}

/// Result of a design for events in batches of so many, without its name; it must not have counted
/// anything of its own.
pub(crate) fn counted_nothing(
    config: &MachineConfig,
    design: &str,
    events: &[Event],
    cut: usize,
) -> serde_json::Value {
    let mut result = run(config, design, &mut Cut::new(events, cut));
    assert_eq!(result.tlb_counters.values().sum::<u64>(), 0);
    result.tlb_counters.clear();
    but_the_design(&result)
}

pub(crate) const LOADS: u64 = 80_000;

/// A chain of dependent loads over pages of so many bytes, one line each, in an order in which
/// whatever the first two levels of cache have left when it comes again is gone: cycles a load over
/// the last half, and what the whole counted.
pub(crate) fn chain(
    config: &MachineConfig,
    design: &str,
    pages: u64,
    bytes: u64,
) -> (f64, RunResult) {
    let event = |i: u64| {
        let page = i * 1237 % pages;
        let line = (page + page / 128) % 64;
        load(BASE + page * bytes + line * 64, 0, 1)
    };
    let [half, whole] = [LOADS / 2, LOADS].map(|loads| {
        let mut events: Vec<Event> = vec![map(BASE, pages * bytes)];
        events.extend((0..loads).map(event));
        run(config, design, &mut Cut::new(&events, 500))
    });
    let cycles = whole.cycles.elapsed - half.cycles.elapsed;
    (cycles as f64 / (LOADS / 2) as f64, whole)
}

/// A last level of 100 cycles, a second of 16 and a first of 4 that keep little; all frames are free.
pub(crate) fn far(keys: &[&str]) -> MachineConfig {
    let far = [
        "caches.llc.cycles=100",
        "caches.l2.kib=16",
        "caches.l1.kib=4",
        "memory.utilisation=0.0",
    ];
    machine(&[&far[..], keys].concat())
}

/// A design does not go with a key, and says so.
pub(crate) fn is_refused(design: &str, key: &str, said: &str) {
    let error = simulate(&machine(&[key]), design, &mut Cut::new(&[], 1), &mut |_| {
        ControlFlow::Continue(())
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains(said), "{error}");
}
