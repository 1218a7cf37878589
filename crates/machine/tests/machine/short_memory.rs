//! Memory that is short: time that a program waits, and that kswapd spends in its place; zeros that are given back.

use crate::common::{BASE, Cut, Event, map, run, store};
use pagelab_events::{Access, Op};
use pagelab_machine::{MachineConfig, RunResult};

/// A machine of 64 MiB.
fn machine(keys: &[&str]) -> MachineConfig {
    let mut all = vec!["memory.memory_bytes=64MiB".to_owned()];
    all.push("memory.utilisation=0".to_owned());
    all.extend(keys.iter().map(|&key| key.to_owned()));
    MachineConfig::load("dpt-paper", &all).unwrap()
}

/// Stores to 80 MiB of pages, with so many accesses to the same page after each.
fn fill(accesses: u64, keys: &[&str]) -> RunResult {
    let mut events = vec![map(BASE, 80 << 20)];
    for page in 0..20_000 {
        let again = std::iter::repeat_n(store(BASE + page * 4096), 1 + accesses as usize);
        events.extend(again);
    }
    run(&machine(keys), "radix", &mut Cut::new(&events, 1000))
}

#[test]
fn a_program_waits_for_what_kswapd_has_not_taken() {
    let reclaim = "memory.reclaim.write_us=1";
    let kswapd = ["memory.reclaim.kswapd=true", reclaim];
    let alone = fill(200, &[reclaim]);
    let helped = fill(200, &kswapd);
    let [own, others] = [&alone, &helped].map(|run| run.os.reclaim.unwrap());
    assert!(own.reclaims > 0 && own.kswapd.is_none());
    let thread = others.kswapd.unwrap();
    assert_eq!(others.reclaims, 0, "kswapd is fast enough");
    assert!(thread.wakes > 0 && thread.taken > 4000);
    assert!(others.swapped_out >= thread.taken);
    // Each page written takes a microsecond, 2,660 cycles, of whoever writes it.
    let waited = alone.cycles.causes.faults - helped.cycles.causes.faults;
    assert!(waited.abs_diff(own.swapped_out * 2660) < waited / 20);
    // A slow device keeps kswapd so long that the program has to wait all the same.
    let slow = fill(
        0,
        &["memory.reclaim.kswapd=true", "memory.reclaim.write_us=50"],
    );
    let counts = slow.os.reclaim.unwrap();
    assert!(counts.reclaims > 0 && counts.kswapd.unwrap().taken > 0);
}

#[test]
fn kswapd_changes_nothing_while_there_is_memory() {
    let run_with = |keys: &[&str]| {
        let mut keys = keys.to_vec();
        keys.push("memory.memory_bytes=256MiB");
        let mut result = serde_json::to_value(fill(3, &keys)).unwrap();
        result["machine"].take();
        result
    };
    let alone = run_with(&["memory.reclaim.write_us=1"]);
    let with_thread = run_with(&["memory.reclaim.write_us=1", "memory.reclaim.kswapd=true"]);
    assert_eq!(alone, with_thread);
}

/// A table in use and pages that stream by: with generations the table stays as well as with two lists, and nothing
/// changes while there is memory.
#[test]
fn generations_keep_what_is_used() {
    let stream = |keys: &[&str]| {
        let mut events = vec![map(BASE, 200 << 20)];
        for page in 0..20_000 {
            events.push(store(BASE + (64 << 20) + page * 4096));
            events.push(store(BASE + page % 2_000 * 4096));
        }
        run(&machine(keys), "radix", &mut Cut::new(&events, 1000))
    };
    let lists = stream(&["memory.reclaim.write_us=1"]).os.reclaim.unwrap();
    let generations = stream(&["memory.reclaim.lru_gen=true"]).os.reclaim.unwrap();
    assert!(generations.swapped_out > 5_000 && lists.swapped_out > 5_000);
    assert!(generations.swapped_in < 200, "{generations:?}");
    let plenty = ["memory.memory_bytes=512MiB", "memory.reclaim.lru_gen=true"];
    let [with, without] = [&plenty[..], &plenty[..1]].map(|keys| {
        let mut keys = keys.to_vec();
        keys.push("memory.reclaim.write_us=1");
        let mut result = serde_json::to_value(stream(&keys)).unwrap();
        result["machine"].take();
        result
    });
    assert_eq!(with, without);
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
