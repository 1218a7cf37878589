//! Revelator beside radix: equal where nothing is switched on, and as worked out by hand.

use crate::around::{self, counted_nothing, is_refused, small_machines};
use crate::common::{BASE, Cut, Event, close, load, map, run};
use crate::same_bits::events;
use pagelab_machine::{MachineConfig, RunResult};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// One goes through the caches access by access, the other chunk by chunk.
    #[test]
    fn without_guesses_it_is_radix(
        events in events(),
        config in small_machines(),
    ) {
        let mut config = config;
        config.revelator.data = false;
        config.revelator.entries = false;
        let result = |design: &str, cut| counted_nothing(&config, design, &events, cut);
        prop_assert!(result("revelator", 500) == result("radix", 1), "revelator");
    }
}

const PAGES: u64 = 8192;
const LOADS: u64 = 80_000;

/// A chain of dependent loads over 8,192 pages, each so many pages from the next, one line each, in
/// an order in which whatever the first two levels of cache have left when it comes again is gone;
/// half of it, and the whole.
fn halves(config: &MachineConfig, design: &str, stride: u64) -> [RunResult; 2] {
    let event = |i: u64| {
        let page = i * 1237 % PAGES;
        let line = (page + page / 128) % 64;
        // Entries, too, are in different lines of their pages, and those of each set of the last
        // level few.
        let vpn = page * stride + if stride == 1 { 0 } else { page / 64 * 8 % 512 };
        load(BASE + vpn * 4096 + line * 64, 0, 1)
    };
    [LOADS / 2, LOADS].map(|loads| {
        let mut events: Vec<Event> = vec![map(BASE, (PAGES * stride + 512) * 4096)];
        events.extend((0..loads).map(event));
        run(config, design, &mut Cut::new(&events, 500))
    })
}

/// Cycles a load over the last half of such a chain, and what the whole counted.
fn chain(config: &MachineConfig, design: &str, stride: u64) -> (f64, RunResult) {
    let [half, whole] = halves(config, design, stride);
    let cycles = whole.cycles.elapsed - half.cycles.elapsed;
    (cycles as f64 / (LOADS / 2) as f64, whole)
}

/// A last level of 100 cycles that has everything but at first; a second of 16 cycles and a first
/// of 4 that keep little. All frames are free, so that nearly every page is where the first
/// function says.
fn far(keys: &[&str]) -> MachineConfig {
    around::far(keys)
}

#[test]
fn a_right_guess_has_the_line_there_when_the_walk_ends() {
    // 8 cycles for the second-level TLB, 2 for the walk cache, which has the level above; 100 for
    // the entry and 100 for the data.
    close(chain(&far(&[]), "radix", 1).0, 8.0 + 2.0 + 100.0 + 100.0);
    // The guess goes out 2 cycles after the TLB has answered, when the walk reads its entry, and
    // comes when that does: the access finds the line in the second level.
    let (cycles, result) = chain(&far(&[]), "revelator", 1);
    close(cycles, 8.0 + 2.0 + 100.0 + 16.0);
    assert_eq!(result.tlb_counters["data_lines_late"], 0);
    // A page fault walks once more.
    let walks = LOADS + PAGES;
    assert_eq!(result.walks.count, walks);
    // All four functions are guessed by until 256 walks have found their page, each after one that
    // has not.
    let early = 2 * 256;
    let counters = &result.tlb_counters;
    assert_eq!(counters["data_guesses"], walks + 3 * early);
    assert_eq!(counters["data_guesses_filtered"], 3 * (walks - early));
    let right = counters["data_guesses_right"];
    assert!((LOADS - LOADS / 100..=LOADS).contains(&right), "{right}");
}

#[test]
fn a_guess_that_comes_after_the_walk_is_waited_for() {
    let (cycles, result) = chain(&far(&["revelator.cycles=9"]), "revelator", 1);
    close(cycles, 8.0 + 9.0 + 100.0);
    let late = result.tlb_counters["data_lines_late"];
    assert!(late > LOADS - 2 * PAGES, "{late}");
    assert!(late <= result.tlb_counters["data_guesses_right"]);
}

#[test]
fn guesses_hold_miss_buffers() {
    // One buffer: the walk's read waits until the guess has come, 100 cycles, and takes as long.
    let one = ["core.miss_buffers=1", "revelator.functions=1"];
    let (cycles, _) = chain(&far(&one), "revelator", 1);
    close(cycles, 8.0 + 2.0 + 100.0 + 100.0 + 16.0);
    // Two, and a wrong guess besides the right one: the same.
    let two = [
        "core.miss_buffers=2",
        "revelator.functions=2",
        "revelator.filtered=false",
    ];
    let (cycles, result) = chain(&far(&two), "revelator", 1);
    close(cycles, 8.0 + 2.0 + 100.0 + 100.0 + 16.0);
    let wrong = result.tlb_counters["data_guesses_wrong"];
    assert!(wrong >= LOADS, "{wrong}");
    // With a third, the wrong guess costs no time.
    let three = ["core.miss_buffers=3"];
    let (cycles, _) = chain(&far(&[&two[1..], &three].concat()), "revelator", 1);
    close(cycles, 8.0 + 2.0 + 100.0 + 16.0);
}

#[test]
fn a_right_guess_of_an_entry_is_there_when_the_level_above_has_been_read() {
    // A page in each 2 MiB: no walk cache has the level above the entry.
    let both = ["memory.memory_bytes=\"64GiB\""];
    let keys = |more: &[&'static str]| far(&[&both[..], more].concat());
    let before = 8.0 + 2.0 + 100.0;
    close(chain(&keys(&[]), "radix", 512).0, before + 100.0 + 100.0);
    let (cycles, result) = chain(&keys(&["revelator.data=false"]), "revelator", 512);
    close(cycles, before + 16.0 + 100.0);
    let right = result.tlb_counters["entry_guesses_right"];
    assert!((LOADS - LOADS / 100..=LOADS + PAGES).contains(&right));
    assert_eq!(result.tlb_counters["data_guesses"], 0);
    let (cycles, _) = chain(&keys(&["revelator.entries=false"]), "revelator", 512);
    close(cycles, before + 100.0 + 16.0);
    close(chain(&keys(&[]), "revelator", 512).0, before + 16.0 + 16.0);
}

#[test]
fn free_translation_needs_no_guess() {
    let mut config = far(&["revelator.filtered=false"]);
    config.free_clock = true;
    let recoverable =
        halves(&config, "revelator", 1).map(|half| half.cycles.causes.recoverable.unwrap());
    // A walk of 8 + 2 + 100 + 16 cycles; free, each load takes 100 in the last level.
    let a_load = (recoverable[1] - recoverable[0]) as f64 / (LOADS / 2) as f64;
    close(a_load, 8.0 + 2.0 + 16.0);
}

#[test]
fn what_it_does_not_go_with_is_refused() {
    for (key, said) in [
        ("revelator.functions=0", "functions"),
        ("revelator.functions=9", "functions"),
        ("revelator.window=0", "window"),
        ("revelator.least_share=1.5", "least_share"),
        ("tlb_prefetch.prefetcher=sequential", "tlb_prefetch"),
    ] {
        is_refused("revelator", key, said);
    }
}
