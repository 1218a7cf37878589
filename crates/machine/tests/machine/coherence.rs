//! Private caches that are kept coherent: runs of two threads whose time can be worked out by hand.

use crate::common::{self, BASE, Cut, Event, close, load, map, run, store};
use pagelab_events::Control;
use pagelab_machine::{MachineConfig, RunResult};

const TRANSFER: f64 = 75.0;
const INVALIDATE: f64 = 60.0;

fn machine(overrides: &[&str]) -> MachineConfig {
    common::machine(&[&["cores=2"], overrides].concat())
}

fn coherent(overrides: &[&str]) -> MachineConfig {
    let key = format!(
        "caches.coherence={{ transfer_cycles = {TRANSFER}, invalidate_cycles = {INVALIDATE} }}"
    )
    .replace(".0", "");
    machine(&[&[key.as_str()], overrides].concat())
}

fn thread(thread: u32) -> Event {
    Event::Control(Control::Thread { thread })
}

fn simulate(config: &MachineConfig, design: &str, events: &[Event]) -> RunResult {
    let all: Vec<Event> = [&[map(BASE, 1 << 20)], events].concat();
    let result = run(config, design, &mut Cut::new(&all, 500));
    assert!(result.complete);
    if let Some(coherence) = result.caches.coherence {
        let found = result.caches.data.other_cores + result.walks.served_by.other_cores;
        assert_eq!(coherence.transfers, found);
    }
    result
}

/// Two threads in turn count up, each a word: the load of a count waits for the one before it.
/// Cycles a count.
fn counting(config: &MachineConfig, words: [u64; 2]) -> f64 {
    let cycles = |counts: u64| {
        let mut events = Vec::new();
        for _ in 0..counts {
            for (number, word) in (0..).zip(words) {
                events.extend([thread(number), load(BASE + word, 0, 2), store(BASE + word)]);
            }
        }
        simulate(config, "ideal", &events).cycles.elapsed
    };
    (cycles(2000) - cycles(1000)) as f64 / 1000.0
}

#[test]
fn a_line_that_two_cores_write_goes_to_and_fro() {
    // The same word, two words of a line, and two of different lines.
    close(counting(&coherent(&[]), [0, 0]), TRANSFER);
    close(counting(&coherent(&[]), [0, 8]), TRANSFER);
    close(counting(&coherent(&[]), [0, 64]), 4.0);
    close(counting(&machine(&[]), [0, 8]), 4.0);
}

#[test]
fn reading_beside_others_costs_nothing_after_the_first() {
    let mut events = Vec::new();
    for _ in 0..1000 {
        for number in 0..2 {
            events.extend([thread(number), load(BASE, 0, 1)]);
        }
    }
    let result = simulate(&coherent(&[]), "ideal", &events);
    let coherence = result.caches.coherence.unwrap();
    assert_eq!(coherence.transfers, 1);
    assert_eq!((coherence.upgrades, coherence.invalidations), (0, 0));
    // The first core waited for memory, 45 ns behind 36 cycles.
    close(
        result.cycles.elapsed as f64,
        36.0 + 45.0 * 2.66 + 4.0 * 999.0,
    );
}

/// A thread stores to lines that it has read, another has read them before or not; with one miss
/// buffer a store waits for the one before it. Cycles a store.
#[test]
fn a_store_to_a_shared_line_waits_for_its_other_holders() {
    let lines = 200u64;
    let cycles = |shared: bool, stores: bool| {
        let all = |number: u32, event: fn(u64) -> Event| {
            std::iter::once(thread(number)).chain((0..lines).map(move |i| event(BASE + i * 64)))
        };
        let read = |addr| load(addr, 0, 1);
        let mut events: Vec<Event> = Vec::new();
        if shared {
            events.extend(all(0, read));
        }
        events.extend(all(1, read));
        if stores {
            events.extend(all(1, store));
        }
        let result = simulate(&coherent(&["core.miss_buffers=1"]), "ideal", &events);
        let coherence = result.caches.coherence.unwrap();
        let upgrades = if shared && stores { lines } else { 0 };
        assert_eq!(
            (coherence.upgrades, coherence.invalidations),
            (upgrades, upgrades)
        );
        result.cycles.total
    };
    let took = |shared| (cycles(shared, true) - cycles(shared, false)) as f64 / lines as f64;
    // The store buffer holds 32: the last are not waited for.
    close(took(true), INVALIDATE * (lines - 32) as f64 / lines as f64);
    assert!(took(false) < 1.0, "{}", took(false));
}

/// Walkers read entries that the kernel writes, on whichever core takes the fault.
#[test]
fn entries_of_page_tables_are_lines_like_any_other() {
    let page = |number: u64| load(BASE + number * 4096 + number * 64, 0, 1);
    let events = [thread(0), page(0), thread(1), page(1), thread(0), page(2)];
    let served = |turns: usize| {
        let result = simulate(&coherent(&[]), "radix", &events[..2 * turns]);
        let coherence = result.caches.coherence.unwrap();
        let found = result.walks.served_by.other_cores;
        assert_eq!(result.caches.data.other_cores, 0);
        (found, coherence.upgrades, coherence.invalidations)
    };
    assert_eq!(served(1), (0, 0, 0));
    // Three upper levels, which the first core has read, and the line of entries, which the kernel
    // has written there. Here it writes that line again.
    assert_eq!(served(2), (4, 1, 1));
    assert_eq!(served(3), (5, 2, 2));
}

#[test]
fn one_core_has_nothing_to_keep_coherent() {
    let events: Vec<Event> = (0..500)
        .flat_map(|i| [load(BASE + i * 192, 1, 1), store(BASE + i * 64)])
        .collect();
    let cycles = |config: &MachineConfig| simulate(config, "radix", &events).cycles.elapsed;
    let one = |config| MachineConfig { cores: 1, ..config };
    assert_eq!(cycles(&one(coherent(&[]))), cycles(&one(machine(&[]))));
}
